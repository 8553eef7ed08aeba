"""Passes keep the meaning of every architecture, and each of them does its work."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import annotated, graphs
from reference import assignments, meaning

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph, Node
from archir.ir.op import Composite, Op
from archir.ir.printer import print_graph
from archir.ir.reader import parse_graph
from archir.ir.structure import Input
from archir.ir.verify import BrokenGraph, verify
from archir.ops.activation import Relu
from archir.ops.conv import Linear
from archir.passes import PASSES, run
from archir.passes.freeze import freeze
from archir.passes.specialize import specialize
from tests.op_cases import CASES, ELEMENTS, Dims


def same_meaning(one: Graph, other: Graph) -> Iterator[bool]:
    for outcomes in islice(assignments(one), 60):
        before, after = meaning(one, outcomes), meaning(other, outcomes)
        yield before.keys() == after.keys() and all(np.array_equal(before[name], after[name]) for name in before)


SOME = given(graphs(most_nodes=25, most_choices=3), st.lists(st.sampled_from(sorted(PASSES)), min_size=1, max_size=4))


@settings(max_examples=50, deadline=None)
@SOME
def test_passes_keep_the_meaning(graph: Graph, names: list[str]) -> None:
    keeps_its_meaning(graph, names)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@SOME
def test_passes_keep_the_meaning_of_many_graphs(graph: Graph, names: list[str]) -> None:
    keeps_its_meaning(graph, names)


def keeps_its_meaning(graph: Graph, names: list[str]) -> None:
    result = run(graph, names, verify=True)
    assert all(same_meaning(graph, result))
    assert len(result) <= len(graph)
    assert result.decisions == graph.decisions
    assert list(result.outputs) == list(graph.outputs)


@settings(max_examples=25, deadline=None)
@given(annotated())
def test_specialized_and_frozen_graphs_keep_inputs_and_meaning(graph: Graph) -> None:
    specialized(graph)
    frozen(graph)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@given(annotated())
def test_specialized_and_frozen_graphs_keep_meaning_for_many_graphs(graph: Graph) -> None:
    specialized(graph)
    frozen(graph)


def specialized(graph: Graph) -> None:
    """Each architecture has all inputs of its space, also those that only other architectures read."""
    for outcomes in islice(assignments(graph), 12):
        one = specialize(graph, outcomes)
        verify(one)
        assert one.signature == graph.signature
        assert not one.decisions
        assert one.parameters == graph.parameters
        assert len(run(one, ["prune"])) == len(one)
        before, after = meaning(graph, outcomes), meaning(one, {})
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[name], after[name]) for name in before)


def frozen(graph: Graph) -> None:
    """Some choices made: the others stay, but for those that this makes inactive, which have their first outcome."""
    paths = list(graph.decisions)
    for chosen in islice(assignments(graph), 0, 12, 5):
        some = {path: chosen[path] for path in paths[::2]}
        rest = freeze(graph, some)
        verify(rest)
        assert not some.keys() & rest.decisions.keys()
        assert all(decision.active is not False for decision in rest.decisions.values())
        assert len(rest.constraints) <= len(graph.constraints)
        assert all(one.cost is not None or one.condition is not True for one in rest.constraints)
        assert len(run(rest, ["prune"])) == len(rest)
        fixed = dict.fromkeys(graph.decisions.keys() - rest.decisions.keys(), 0) | some
        for outcomes in islice(assignments(graph), 12):
            before, after = meaning(graph, outcomes | fixed), meaning(rest, outcomes | fixed)
            assert all(np.array_equal(before[name], after[name]) for name in before)


ONCE = given(graphs(most_nodes=25, most_choices=2), st.sampled_from(["prune", "cse"]))


@settings(max_examples=40, deadline=None)
@ONCE
def test_passes_reach_fixpoint_in_one_run(graph: Graph, name: str) -> None:
    leaves_nothing_to_do(graph, name)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@ONCE
def test_passes_reach_fixpoint_in_one_run_for_many_graphs(graph: Graph, name: str) -> None:
    leaves_nothing_to_do(graph, name)


def leaves_nothing_to_do(graph: Graph, name: str) -> None:
    once = run(graph, [name])
    assert print_graph(run(once, [name])) == print_graph(once)


def after(name: str, body: str) -> str:
    """The nodes and outputs of a net after a pass, without types."""
    graph = parse_graph("net tiny {\nchoice a {1, 2} choice b {1, 2}\n" + body + "}")
    verify(graph)
    lines = print_graph(run(graph, [name], verify=True), {}).splitlines()
    return "\n".join(line.strip() for line in lines if line.lstrip().startswith(("%", "output")))


X = '%0 = input "x" f32[8]\n'
MAP = '%0 = input "x" f32[4, 6, 6]\n'


def test_prune_removes_unused_nodes() -> None:
    text = X + "%1 = relu(%0)\n%2 = relu6(%0)\n%3 = sigmoid(%2)\noutput y = %1"
    assert after("prune", text) == X + "%1 = relu(%0)\noutput y = %1"


def test_prune_uses_conditions_of_enclosing_choices() -> None:
    graph = parse_graph(
        "net tiny {choice a {1, 2}"
        + X
        + """
        %1 = relu(%0)
        %2 = sigmoid(%0)
        %3 = select(%1, %2) by a [0, 1]
        %4 = tanh(%3)
        %5 = select(%4, %0) by a [0, 1]
        output y = %5 }"""
    )  # sigmoid is never chosen: where it would be, nothing reads the choice
    assert print_graph(run(graph, ["prune"], verify=False), {}).splitlines()[2:] == [
        '  %0 = input "x" f32[8]',
        "  %1 = relu(%0)",
        "  %2 = select(%1) by a [0, 0]",
        "  %3 = tanh(%2)",
        "  %4 = select(%3, %0) by a [0, 1]",
        "  output y = %4",
        "}",
    ]
    assert "choice a {1, 2}" in print_graph(run(graph, ["prune"]))


TURN = "%{} = transpose(%{}, axes=(1, 2, 0))\n"

FOLDED = [
    (X + "%1 = identity(%0)\n%2 = identity(%1)", X, 0),
    (X + "%1 = scale(%0, factor=1.0)\n%2 = shift(%1, amount=0.0)", X, 0),
    (X + "%1 = zero(%0)\n%2 = add(%0, %1)", X, 0),
    (X + "%1 = zero(%0)\n%2 = add(%1, %0)", X, 0),
    (X + "%1 = zero(%0)\n%2 = sub(%0, %1)", X, 0),
    (X + "%1 = concat(%0)", X, 0),
    (X + "%1 = relu(%0)\n%2 = relu(%1)", X + "%1 = relu(%0)\n", 1),
    (X + "%1 = relu(%0)\n%2 = relu6(%1)", X + "%1 = relu6(%0)\n", 1),
    (X + "%1 = relu6(%0)\n%2 = relu(%1)", X + "%1 = relu6(%0)\n", 1),
    (X + "%1 = sigmoid(%0)\n%2 = relu(%1)", X + "%1 = sigmoid(%0)\n", 1),
    (X + "%1 = slice(%0)\n%2 = slice(%1, stop=8)", X, 0),
    (X + "%1 = reshape(%0, shape=(-1,))", X, 0),
    (X + "%1 = reshape(%0, shape=(2, 4))\n%2 = flatten(%1)", X, 0),
    (X + "%1 = reshape(%0, shape=(2, 4))\n%2 = reshape(%1, shape=(4, -1))", X + "%1 = reshape(%0, shape=(4, -1))\n", 1),
    (MAP + "%1 = transpose(%0)\n%2 = transpose(%1)", MAP, 0),
    (MAP + TURN.format(1, 0) + TURN.format(2, 1), MAP + "%1 = transpose(%0, axes=(2, 0, 1))\n", 1),
    (MAP + "%1 = transpose(%0, axes=(0, 1, 2))", MAP, 0),
    (MAP + "%1 = avg_pool(%0, kernel=1)\n%2 = max_pool(%1, kernel=1)", MAP, 0),
    (MAP + "%1 = pad(%0, amount=0)\n%2 = upsample(%1, factor=1)", MAP, 0),
    (MAP + "%1 = to_tokens(%0)\n%2 = to_map(%1)", MAP, 0),
    (X + "%1 = identity(%0)\n%2 = select(%0, %1) by a [1, 0]", X, 0),
    (
        X + "%1 = relu(%0)\n%2 = identity(%0)\n%3 = select(%0, %1, %2) by a [2, 1]",
        X + "%1 = relu(%0)\n%2 = select(%0, %1) by a [0, 1]\n",
        2,
    ),
]


@pytest.mark.parametrize(("before", "expected", "output"), FOLDED)
def test_fold_removes_operations_without_effect(before: str, expected: str, output: int) -> None:
    last = before.count(" = ") - 1
    assert after("fold", f"{before}\noutput y = %{last}") == f"{expected}output y = %{output}"


KEPT = [
    X + "%1 = dropout(%0, rate=0.0)",
    X + "%1 = scale(%0, factor=case(a: 1.0, 2.0))",
    X + "%1 = zero(%0)\n%2 = sub(%1, %0)",
    MAP + "%1 = slice(%0, stop=1, axis=0)\n%2 = zero(%0)\n%3 = add(%1, %2)",  # the sum is larger than what it adds to
    MAP + "%1 = avg_pool(%0, kernel=1, stride=2)",
    MAP + "%1 = upsample(%0, factor=case(a: 1, 2))",
    MAP + "%1 = to_tokens(%0)\n%2 = to_map(%1, height=4)",
    MAP + "%1 = transpose(%0, axes=case(a: (0, 1, 2), (1, 0, 2)))",
    X + "%1 = relu6(%0)\n%2 = tanh(%1)\n%3 = relu(%2)",
]


@pytest.mark.parametrize("text", KEPT)
def test_fold_keeps_effective_operations(text: str) -> None:
    last = text.count(" = ") - 1
    assert after("fold", f"{text}\noutput y = %{last}") == f"{text}\noutput y = %{last}"


def test_cse_merges_equal_nodes() -> None:
    text = X + "%1 = relu(%0)\n%2 = relu(%0)\n%3 = tanh(%0)\n"
    text += "%4 = add(%1, %3)\n%5 = add(%3, %2)\n%6 = mul(%4, %5)\noutput y = %6"
    merged = X + "%1 = relu(%0)\n%2 = tanh(%0)\n%3 = add(%1, %2)\n%4 = mul(%3, %3)\noutput y = %4"
    assert after("cse", text) == merged


PAIRS = [(op, kinds) for op, kinds in CASES if len(kinds) > 1 and kinds[0] == kinds[1]]


@pytest.mark.parametrize("name", ["cse", "fold", "prune", "expand", "infer"])
@pytest.mark.parametrize(("op", "kinds"), PAIRS, ids=lambda value: getattr(value, "name", ""))
def test_swapped_operands_merge_only_for_commutative_operations(op: Op, kinds: tuple[Dims, ...], name: str) -> None:
    """Only commutative operations are merged with themselves on swapped operands."""
    elements = ELEMENTS.get(type(op), ("f32",) * len(kinds))
    if elements[0] != elements[1]:
        return
    graph = Graph("swapped")
    x, y, *rest = [graph.add(Node(Input(f"x{i}", *kind))) for i, kind in enumerate(zip(kinds, elements, strict=True))]
    graph.outputs = {
        "one": graph.add(Node(op, scope="a"), x, y, *rest),
        "two": graph.add(Node(op, scope="a"), y, x, *rest),
    }
    result = run(graph, [name])
    read = [result.operands(number)[:2] for number in result.outputs.values()]
    assert sorted(read[0]) == sorted(read[1]) == [0, 1]
    merged = name == "cse" and op.commutative
    assert (read[0] == read[1], len(result) == len(graph)) == (merged, not merged)


def test_cse_merges_equal_weights_only() -> None:
    text = X + "%1 = linear(%0, channels=8) @ {}\n%2 = linear(%0, channels=8) @ {}\n%3 = sub(%1, %2)\noutput y = %3"
    assert after("cse", text.format("a", "b")) == text.format("a", "b")
    shared = X + "%1 = linear(%0, channels=8) @ a\n%2 = sub(%1, %1)\noutput y = %2"
    assert after("cse", text.format("a", "a")) == shared


def test_cse_keeps_random_numbers_apart() -> None:
    text = X + "%1 = dropout(%0){}\n%2 = dropout(%0){}\n%3 = add(%1, %2)\noutput y = %3"
    for scopes in (("", ""), (" @ a", " @ b"), (" @ a", " @ a")):
        assert after("cse", text.format(*scopes)) == text.format(*scopes)


def test_cse_keeps_calls_that_update_statistics() -> None:
    text = X + "%1 = batch_norm(%0) @ n\n%2 = batch_norm(%0) @ n\n%3 = add(%1, %2)\noutput y = %3"
    assert after("cse", text) == text


def test_cse_merges_norms_without_weights() -> None:
    text = X + "%1 = layer_norm(%0, affine=false) @ a\n%2 = layer_norm(%0, affine=false) @ b\n"
    text += "%3 = add(%1, %2)\noutput y = %3"
    merged = X + "%1 = layer_norm(%0, affine=false) @ a\n%2 = add(%1, %1)\noutput y = %2"
    assert after("cse", text) == merged


def test_expand_leaves_no_composite_and_nothing_unread() -> None:
    graph = parse_graph(
        f"net n {{ {MAP} %1 = as_gate(%0)\n%2 = relu(%0)\n%3 = tanh(%0)\n%4 = calibrate(%3, %2, %1)\noutput y = %4 }}"
    )
    result = run(graph, ["expand"], verify=True)
    assert not any(isinstance(result[number].op, Composite) for number in result)
    assert len(run(result, ["prune"])) == len(result)


def test_infer_reports_error_with_position_and_choice() -> None:
    text = "net tiny {choice a {1, 2}\n" + X + "%1 = slice(%0, stop=case(a: 8, 9))\noutput y = %1}"
    graph = parse_graph(text, "tiny.ir")
    with pytest.raises(ArchError, match=r"tiny.ir:3:1: error\[A0401\]: %1 \(slice\): slice 0:9(.|\n)*when a = 2"):
        run(graph, ["infer"])


def test_unknown_passes_are_refused_before_any_runs() -> None:
    with pytest.raises(ArchError, match=r"did you mean `prune`") as caught:
        run(Graph(), ["fold", "prun", "lower"])
    assert [d.code for d in caught.value.diagnostics] == ["A0707", "A0707"]


def test_the_pass_that_broke_the_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse_graph("net tiny {" + X + "output y = %0}")

    def vandal(graph: Graph) -> Graph:
        copy = PASSES["prune"](parse_graph(print_graph(graph)))
        copy.outputs["z"] = copy.add(Node(Linear(3)), 0)
        return copy

    monkeypatch.setitem(PASSES, "vandal", vandal)
    run(graph, ["prune", "vandal", "fold"])
    with pytest.raises(BrokenGraph, match=r"after pass `vandal`: %1 .linear.: has weights but no scope"):
        run(graph, ["prune", "vandal", "fold"], verify=True)
    graph.add(Node(Relu()), 7)
    with pytest.raises(BrokenGraph, match="before any pass"):
        run(graph, ["prune"], verify=True)
