"""Canonical hashes are equal for networks that compute the same and differ for others."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.equivalence.canonical import Canonical, canonical_hash
from archir.ir.graph import Graph, Node
from archir.ir.reader import parse_graph
from archir.ops.activation import Identity, Relu, Sigmoid, Tanh
from archir.ops.arithmetic import Add, Mul
from archir.ops.conv import Linear
from archir.passes.specialize import specialize
from tests.conftest import EXAMPLES, ROOT
from tests.ir.random_graphs import graphs
from tests.ir.reference import assignments, meaning

X = '%0 = input "x" f32[8]\n'
MAP = '%0 = input "x" f32[4, 6, 6]\n'


def named(body: str, **scopes: str) -> str:
    return canonical_hash(parse_graph("net tiny {\n" + body + "}"))


def lines(*operations: str, start: str = X) -> str:
    """A net of operations numbered from 1, whose last is its output."""
    body = "".join(f"%{i} = {text}\n" for i, text in enumerate(operations, 1))
    return named(f"{start}{body}output y = %{len(operations)}")


A, B = "linear(%0, channels=8) @ a", "linear(%0, channels=8) @ b"
RELU, TANH = "relu(%0)", "tanh(%0)"

SAME = {
    "operand order": ([RELU, TANH, "add(%1, %2)"], [RELU, TANH, "add(%2, %1)"]),
    "numbering": ([RELU, TANH, "sub(%1, %2)"], [TANH, RELU, "sub(%2, %1)"]),
    "identity": ([RELU], ["identity(%0)", "relu(%1)", "scale(%2, factor=1.0)"]),
    "dead code": ([RELU, "tanh(%1)"], [A, RELU, "tanh(%2)"]),
    "twice": ([RELU, "mul(%1, %1)"], [RELU, RELU, "mul(%1, %2)"]),
    "brackets": (
        [RELU, TANH, "add(%0, %1)", "add(%3, %2)"],
        [RELU, TANH, "add(%1, %2)", "add(%0, %3)"],
    ),
    "brackets of what is used elsewhere": (
        [RELU, TANH, "add(%0, %1)", "add(%3, %2)", "exp(%3)", "sub(%4, %5)"],
        [RELU, TANH, "add(%1, %2)", "add(%0, %3)", "add(%1, %0)", "exp(%5)", "sub(%4, %6)"],
    ),
    "brackets of products": ([RELU, "mul(%0, %1)", "mul(%2, %0)"], [RELU, "mul(%0, %0)", "mul(%1, %2)"]),
    "differences": (
        [RELU, TANH, "sub(%0, %1)", "sub(%3, %2)"],
        [RELU, TANH, "add(%1, %2)", "sub(%0, %3)"],
    ),
    "what cancels": ([RELU], [RELU, TANH, "add(%1, %2)", "sub(%3, %2)"]),
    "nothing left": (["zero(%0)"], [A, "sub(%1, %1)"]),
    "zero in a sum": ([RELU], ["zero(%0)", RELU, "add(%1, %2)", "add(%1, %3)"]),
    "zero through what keeps it": (
        [RELU],
        ["zero(%0)", "linear(%1, channels=8, bias=false) @ a", "tanh(%2)", "rms_norm(%3) @ n", RELU, "add(%4, %5)"],
    ),
    "zero in a product": (["zero(%0)"], ["zero(%0)", "sigmoid(%1)", "mul(%1, %2)"]),
    "a constant has no weights before it": (
        ["zero(%0)", "batch_norm(%1) @ n"],
        ["zero(%0)", "linear(%1, channels=8, bias=false) @ a", "batch_norm(%2) @ m"],
    ),
    "names of scopes": ([A, "relu(%1)"], [B, "relu(%1)"]),
    "names of shared scopes": (
        [A, "linear(%1, channels=8) @ a"],
        [B, "linear(%1, channels=8) @ b"],
    ),
    "branches in another order": ([A, B, "relu(%1)", "add(%2, %3)"], [A, B, "relu(%2)", "add(%1, %3)"]),
    "one use in a net, two in dead code": (
        [A, "relu(%1)"],
        [A, RELU, "linear(%2, channels=8) @ a", "zero(%3)", "mul(%3, %4)", "add(%1, %5)", "relu(%6)"],
    ),
    "defaults": (["slice(%0, stop=4)"], ["slice(%0, start=0, stop=4, axis=-1)"]),
}


@pytest.mark.parametrize("name", SAME)
def test_equivalent_networks_have_equal_form(name: str) -> None:
    one, other = SAME[name]
    assert lines(*one) == lines(*other)


OTHER = {
    "an attribute": (["scale(%0, factor=2.0)"], ["scale(%0, factor=3.0)"]),
    "operands of a difference": ([RELU, TANH, "sub(%1, %2)"], [RELU, TANH, "sub(%2, %1)"]),
    "operands side by side": ([RELU, TANH, "concat(%1, %2)"], [RELU, TANH, "concat(%2, %1)"]),
    "how often": ([RELU, "add(%0, %1)"], [RELU, "add(%0, %1)", "add(%2, %1)"]),
    "weights of one and of two": ([A, "mul(%1, %1)"], [A, B, "mul(%1, %2)"]),
    "weights below what is used twice": (
        [A, "relu(%1)", "mul(%2, %2)"],
        [A, B, "relu(%1)", "relu(%2)", "mul(%3, %4)"],
    ),
    "weights shared by two layers": (
        [A, "linear(%1, channels=8) @ a"],
        [A, "linear(%1, channels=8) @ b"],
    ),
    "which weights are shared": (
        [A, B, "linear(%1, channels=8) @ a", "linear(%2, channels=8) @ b", "mul(%3, %4)"],
        [A, B, "linear(%1, channels=8) @ b", "linear(%2, channels=8) @ a", "mul(%3, %4)"],
    ),
    "random numbers of one and of two": (
        ["dropout(%0) @ a", "mul(%1, %1)"],
        ["dropout(%0) @ a", "dropout(%0) @ b", "mul(%1, %2)"],
    ),
    "a bias": (["zero(%0)", "linear(%1, channels=8) @ a"], ["zero(%0)"]),
    "statistics": (["zero(%0)", "batch_norm(%1, affine=false) @ a"], ["zero(%0)"]),
    "sigmoid of zero": (["zero(%0)", "sigmoid(%1)"], ["zero(%0)"]),
}


@pytest.mark.parametrize("name", OTHER)
def test_different_networks_have_different_forms(name: str) -> None:
    one, other = OTHER[name]
    assert lines(*one) != lines(*other)


def test_broadcasting_zero_is_not_removed() -> None:
    narrow = "slice(%0, stop=1, axis=0)"
    stretched = lines(narrow, "zero(%0)", "add(%1, %2)", start=MAP)
    assert stretched != lines(narrow, start=MAP)
    assert stretched == lines(narrow, "sub(%0, %0)", "add(%2, %1)", start=MAP)


def test_equivalent_paddings_have_equal_form() -> None:
    one, other = ("conv(%0, channels=4, kernel=1) @ a", 'conv(%0, channels=4, kernel=1, padding="valid") @ a')
    assert lines(one, start=MAP) == lines(other, start=MAP)
    counting = "avg_pool(%0, kernel=3, count_padding=true)"
    assert lines(counting, start=MAP) != lines("avg_pool(%0, kernel=3)", start=MAP)


def test_names_of_inputs_and_outputs_matter() -> None:
    assert named(X + "output y = %0") != named(X + "output z = %0")
    assert named(X + "output y = %0") != named(X.replace('"x"', '"w"') + "output y = %0")
    two = X + "%1 = relu(%0)\n"
    assert named(two + "output y = %0\noutput z = %1") == named(two + "output z = %1\noutput y = %0")
    assert named(two + "output y = %0\noutput z = %1") != named(two + "output y = %1\noutput z = %0")
    assert named('%0 = input "x" f32[8]\n%1 = input "w" f32[8]\noutput y = %0') != named(X + "output y = %0")


def test_long_nested_sums_stay_distinct() -> None:
    doubled = [f"add(%{i}, %{i})" for i in range(3000)]
    assert lines(*doubled) != lines(*doubled[:-1])


def test_a_space_has_no_canonical_form() -> None:
    graph = archir.load(EXAMPLES / "full_attention" / "full_attention.arch").graph
    with pytest.raises(ArchError, match="A0708"):
        canonical_hash(graph)


def test_space_canonical_equals_hash_of_specialized_network() -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch")
    for seed in range(5):
        architecture = space.sample(seed)
        assert space.canonical(architecture) == canonical_hash(space.specialize(architecture))


def test_hashes_are_the_same_in_every_process() -> None:
    program = (
        "import archir; s = archir.load('examples/full_attention/full_attention.arch'); print(s.canonical(s.sample(0)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={**environment, "PYTHONHASHSEED": seed}, cwd=ROOT,
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


# laws


def rewritten(graph: Graph, rng: random.Random) -> Graph:
    """The same network in other words: renumbered, renamed, with operands swapped, identities and dead code."""
    copy = graph.empty_copy()
    scopes = {graph[n].scope for n in graph if graph[n].scope}
    renamed = dict(zip(sorted(scopes), rng.sample(range(1000), len(scopes)), strict=True))
    moved: dict[int, int] = {}
    left = list(graph)
    while left:
        number = rng.choice([n for n in left if all(operand in moved for operand in graph.operands(n))])
        left.remove(number)
        node = graph[number]
        operands = [moved[operand] for operand in graph.operands(number)]
        if isinstance(node.op, Add | Mul) and rng.random() < 0.5:
            operands.reverse()
        scope = f"scope{renamed[node.scope]}" if node.scope else ""
        moved[number] = copy.add(Node(node.op, scope=scope), *operands)
        if rng.random() < 0.3:
            moved[number] = copy.add(Node(Identity()), moved[number])
        if rng.random() < 0.2:
            copy.add(Node(rng.choice([Relu(), Tanh()])), moved[number])
    names = rng.sample(list(graph.outputs), len(graph.outputs))
    copy.outputs = {name: moved[graph.outputs[name]] for name in names}
    return copy


def some_network(graph: Graph, rng: random.Random) -> Graph:
    return specialize(graph, rng.choice(list(assignments(graph))))


REWRITTEN = given(graphs(most_nodes=25, most_choices=2), st.randoms(use_true_random=False))


@settings(max_examples=25, deadline=None)
@REWRITTEN
def test_rewriting_keeps_hash(graph: Graph, rng: random.Random) -> None:
    keeps_its_hash(graph, rng)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@REWRITTEN
def test_rewriting_keeps_many_hashes(graph: Graph, rng: random.Random) -> None:
    keeps_its_hash(graph, rng)


def keeps_its_hash(graph: Graph, rng: random.Random) -> None:
    network = some_network(graph, rng)
    assert canonical_hash(rewritten(network, rng)) == canonical_hash(network)


CHOSEN = given(graphs(most_nodes=25, most_choices=3), st.randoms(use_true_random=False))


@settings(max_examples=20, deadline=None)
@CHOSEN
def test_a_space_hashes_as_its_networks_do(graph: Graph, rng: random.Random) -> None:
    hashes_as_its_networks_do(graph, rng)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@CHOSEN
def test_many_spaces_hash_as_their_networks_do(graph: Graph, rng: random.Random) -> None:
    hashes_as_its_networks_do(graph, rng)


def hashes_as_its_networks_do(graph: Graph, rng: random.Random) -> None:
    outcomes = rng.choice(list(assignments(graph)))
    assert Canonical(graph).hash(outcomes) == canonical_hash(specialize(graph, outcomes))


def edited(graph: Graph, rng: random.Random) -> Graph:
    """The network with one node's operation or operands changed."""
    target = rng.choice(list(graph))
    copy = graph.empty_copy()
    for number in graph:
        node, operands = graph[number], graph.operands(number)
        if number == target and len(operands) == 1:
            node = Node(rng.choice([Relu(), Sigmoid(), Identity()]), scope=node.scope)
        elif number == target and len(operands) == 2:
            operands = (operands[1], operands[0])
        copy.add(node, *operands)
    copy.outputs = graph.outputs
    return copy


def same_function(one: Graph, other: Graph) -> bool:
    """Whether two networks compute the same, for some pairing of their weights."""
    scopes = {
        graph: sorted({graph[n].scope for n in graph if isinstance(graph[n].op, Linear)}) for graph in (one, other)
    }
    fewer, more = sorted((one, other), key=lambda graph: len(scopes[graph]))
    expected = meaning(more, {})
    for names in permutations(scopes[more], len(scopes[fewer])):
        renaming = dict(zip(scopes[fewer], names, strict=True))
        copy = fewer.empty_copy()
        for number in fewer:
            node = fewer[number]
            copy.add(Node(node.op, scope=renaming.get(node.scope, node.scope)), *fewer.operands(number))
        copy.outputs = fewer.outputs
        found = meaning(copy, {})
        if all(np.shape(found[n]) == np.shape(expected[n]) and np.allclose(found[n], expected[n]) for n in expected):
            return True
    return False


EDITED = given(graphs(most_nodes=12, most_choices=1), st.randoms(use_true_random=False))


@EDITED
def test_equal_hashes_imply_equal_outputs(graph: Graph, rng: random.Random) -> None:
    computes_what_its_hash_says(graph, rng)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@EDITED
def test_many_equal_hashes_imply_equal_outputs(graph: Graph, rng: random.Random) -> None:
    computes_what_its_hash_says(graph, rng)


def computes_what_its_hash_says(graph: Graph, rng: random.Random) -> None:
    network = some_network(graph, rng)
    try:
        other = edited(network, rng)
        equal = canonical_hash(other) == canonical_hash(network)
    except ArchError:
        return
    if equal:
        assert same_function(network, other)


# spaces

SMALL = """
net small(width = 4) {
    input image: f32[3, 8, 8]
    x = image |> conv(width) |> batch_norm
    a = choose a { conv: conv(x, width), skip: x, none: zero(x) }
    b = choose b { conv: conv(x, width), skip: x, none: zero(x) }
    output y = a + b |> global_avg_pool |> linear(2)
}
"""


def test_unique_yields_one_architecture_per_hash() -> None:
    space = archir.loads(SMALL)
    assert len(list(space.unique(space.enumerate()))) == 6
    names = {space.canonical(architecture) for architecture in space.sample_unique(6, seed=1)}
    assert len(names) == 6
    assert space.sample_unique(3, seed=2) == space.sample_unique(3, seed=2)
    assert space.sample_unique(1, seed=5) == [space.sample(5)]
    with pytest.raises(ArchError, match=r"found 6 different architectures of 7: there are no more"):
        space.sample_unique(7)


def test_rare_architectures_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from archir.spaces import space as module

    monkeypatch.setattr(module, "MAX_REPEATS", 1)
    assert len(archir.loads(SMALL).sample_unique(6)) == 6
    monkeypatch.setattr(module, "MAX_ENUMERATED", 1)
    with pytest.raises(ArchError, match="sampling hardly finds any others"):
        archir.loads(SMALL).sample_unique(6)


def test_sampling_ends_in_a_large_space_with_few_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    from archir.spaces import space as module

    monkeypatch.setattr(module, "MAX_REPEATS", 20)
    body = "for i in 0..40 { x = x |> choose op { a: relu, b: identity } }"
    space = archir.loads(f"net n {{ input x: f32[4, 6, 6]\n x = relu(x)\n {body}\n output y = x }}")
    with pytest.raises(ArchError, match=r"A1009.*found 1 different architectures of 3: sampling hardly finds any"):
        space.sample_unique(3)


def test_count_and_sample_commands_support_unique(tmp_path: Path) -> None:
    file = tmp_path / "small.arch"
    file.write_text(SMALL)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, [arguments[0], str(file), *arguments[1:]])

    assert "6 of them compute something different" in run("count", "--unique").output
    assert json.loads(run("count", "--unique", "--json").output)["unique"] == 6
    lines = run("sample", "--unique", "-n", "6").output.splitlines()
    space = archir.load(file)
    assert len({space.canonical(space.architecture(json.loads(line)["choices"])) for line in lines}) == 6
    refused = run("sample", "--unique", "-n", "7")
    assert refused.exit_code == 1
    assert "A1009" in refused.stderr
    large = CliRunner().invoke(main, ["count", "--unique", str(EXAMPLES / "full_attention" / "full_attention.arch")])
    assert "A1007" in large.stderr
