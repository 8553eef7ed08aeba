"""Graphs are written as short, readable programs of the same network."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.ir.graph import Graph, Node
from archir.ir.reader import parse_graph
from archir.ir.structure import Input
from archir.ir.typing import infer
from archir.language.decompiler.decompile import DecompiledProgram, decompile, network_source, program_source
from archir.language.decompiler.flat_program import to_source
from archir.language.decompiler.imported import Imported
from archir.language.decompiler.program_tree import Condition as Condition
from archir.language.decompiler.program_tree import FirstRound, Multiple
from archir.language.decompiler.writer import Writer
from archir.language.elaboration.files import Loader
from archir.linting.lint import lint
from archir.passes.specialize import specialize
from tests.conftest import EXAMPLES
from tests.ir.random_graphs import graphs
from tests.ir.reference import assignments
from tests.ir.test_relax import SPACES, space_of
from tests.soak import with_soak

WAYS = with_soak(SPACES, {"darts", "nas_bench_201", "glit", "mobilenet_v3_ofa", "autoformer"})


def lines(text: str) -> int:
    """Lines that are neither empty nor comments."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())


def same(graph: Graph, written: DecompiledProgram) -> None:
    """That a program is of the same network, with a scope for each scope that has weights, of the same shapes."""
    again = archir.loads(written.text).graph
    assert archir.canonical_hash(again) == archir.canonical_hash(graph)
    assert list(again.outputs) == list(graph.outputs)
    assert archir.format(written.text) == written.text
    assert {written.scopes[scope]: shapes for scope, shapes in weights(graph).items()} == weights(again)


def weights(graph: Graph) -> dict[str, object]:
    """The shapes of the weights of each scope."""

    types = infer(graph)
    found = {n: graph[n].op.weights(*(types[o] for o in graph.operands(n))) for n in types}
    return {graph[n].scope: {name: w.shape for name, w in one.items()} for n, one in found.items() if one}


@cache
def example(name: str) -> Graph:
    space = archir.load(EXAMPLES / f"{name}.arch")
    return space.specialize(space.sample(random.Random(0)))


@pytest.mark.parametrize(("name", "most"), [("resnet50", 30), ("deit_tiny", 25), ("mobilenet_v2", 25)])
def test_known_networks_decompile_to_short_programs(name: str, most: int) -> None:
    graph = example(name)
    written = decompile(Imported(graph, graph.blocks))
    same(graph, written)
    assert lines(written.text) <= most
    assert not lint(Loader(None).load(written.text, name, None), [archir.loads(written.text).graph])


def test_resnet50_decompiles_to_readable_program() -> None:
    graph = example("resnet50")
    assert program_source(graph, graph.blocks) == (
        """import std.resnet

block bottleneck(x, width, stride) {
    y = x |> conv_bn(4 * width, 1, stride=stride) if x.channels != 4 * width else x
    x = x |> conv_bn(width, 1) |> relu |> conv_bn(width, 3, stride=stride) |> relu |> conv_bn(4 * width, 1)
    return x + y |> relu
}

net resnet50 {
    input image: f32[3, 224, 224]
    x = image |> conv_bn(64, 7, stride=2) |> relu |> max_pool(3, stride=2)
    for depth, width, stride in [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)] {
        for i in 0..depth {
            x = x |> bottleneck(width, stride if i == 0 else 1)
        }
    }
    output logits = x |> global_avg_pool |> linear(1000)
}
"""
    )


@pytest.mark.parametrize("name", WAYS)
def test_decompiled_architecture_is_same_network(name: str) -> None:
    space = space_of(name)
    graph = space.specialize(space.sample(random.Random(1)))
    text = program_source(graph, graph.blocks)
    again = archir.loads(text).graph
    assert archir.canonical_hash(again) == archir.canonical_hash(graph)
    same(graph, decompile(Imported(graph, graph.blocks)))
    assert not lint(Loader(None).load(text, name, None), [])
    text = network_source(graph)
    assert archir.canonical_hash(archir.loads(text).graph) == archir.canonical_hash(graph)
    assert lines(text) <= 100


def test_found_network_has_cells_of_its_space() -> None:
    space = archir.load(f"{EXAMPLES}/darts/darts.arch:darts")
    text = network_source(space.specialize(space.sample(random.Random(1))))
    assert "block normal(x, y)" in text
    assert "block reduction(x, y)" in text
    assert "block searched" not in text, "normal and reduction do nothing but call it"


def test_network_without_equal_program_is_written_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.language.decompiler.decompile.match_scopes", lambda graph, other: None)
    assert network_source(example("resnet50")) == to_source(example("resnet50"))


def some(graph: Graph, rng: random.Random) -> tuple[Graph, dict[str, str]]:
    """One network of a graph, and modules that its nodes are in."""
    network = specialize(graph, rng.choice(list(assignments(graph))))
    modules = ["", "a", "a.b", "a.b[0]", "a.b[1]", "c"]
    classes = {name: rng.choice(["Sequential", "Block", "net", "relu", "x-y\n"]) for name in modules[1:]}
    moved = Graph("random")
    for number in network:
        node = network[number]
        home = modules[number % len(modules)] if rng.random() < 0.3 else modules[number * 5 // len(network)]
        op = replace(node.op, label=f"in{number}") if isinstance(node.op, Input) else node.op
        moved.add(
            Node(op, scope=f"{home}.{node.scope}" if home and node.scope else node.scope), *network.operands(number)
        )
    moved.outputs = {f"out{place}": number for place, number in enumerate(network.outputs.values())}
    return moved, classes


RANDOM = given(graphs(most_nodes=25, most_choices=1), st.randoms(use_true_random=False))


@settings(max_examples=12, deadline=None)
@RANDOM
def test_random_networks_survive_decompilation(graph: Graph, rng: random.Random) -> None:
    is_written(graph, rng)


@pytest.mark.soak
@settings(max_examples=2000, deadline=None)
@RANDOM
def test_many_random_networks_survive_decompilation(graph: Graph, rng: random.Random) -> None:
    is_written(graph, rng)


def is_written(graph: Graph, rng: random.Random) -> None:
    network, classes = some(graph, rng)
    again = archir.loads(program_source(network, classes)).graph
    assert archir.canonical_hash(again) == archir.canonical_hash(network)
    same(network, decompile(Imported(network, classes)))


def test_weights_that_modules_share_stay_shared() -> None:
    graph = parse_graph(
        """net tied {
    %0 = input "x" f32[8]
    %1 = linear(%0, channels=8) @ a.proj
    %2 = relu(%1)
    %3 = linear(%2, channels=8) @ b.out
    %4 = relu(%3)
    %5 = linear(%4, channels=8) @ a.proj
    output y = %5
}"""
    )
    written = decompile(Imported(graph, {"a": "A", "b": "B"}))
    same(graph, written)
    assert written.text.count('weights="shared_proj"') == 2


def test_writer_parenthesizes_conditional_expressions() -> None:
    """A number of a loop's first round is an expression with `if`, which holds together with nothing around it."""
    writer = Writer({}, ())
    writer.columns += [{None: "j"}, {None: "i"}]
    first = FirstRound(2, 1)
    assert writer.expression(first) == "2 if i == 0 else 1"
    assert writer.expression(Condition("!=", (first, 1))) == "(2 if i == 0 else 1) != 1"
    assert writer.expression(Multiple(first, 2)) == "2 * (2 if i == 0 else 1)"
    assert writer.expression(FirstRound(FirstRound(2, 1), 3)) == "(2 if j == 0 else 1) if i == 0 else 3"


def test_hostile_block_names_become_valid_identifiers() -> None:
    graph = archir.loads("net n() {\n    input x: f32[8]\n    output y = x |> linear(8) |> relu |> linear(8)\n}").graph
    moved = graph.empty_copy()
    for number in graph:
        moved.add(Node(graph[number].op, scope=f"a[{number % 2}].b" if number else ""), *graph.operands(number))
    moved.outputs = graph.outputs
    for name in ('"}\nnet evil {', "import", "", "9lives", "x" * 1000, "Ünïcode", "relu"):
        written = decompile(Imported(moved, {"a[0]": name, "a[1]": name}))
        assert "evil {" not in written.text.replace("evil_", "")
        same(moved, written)
