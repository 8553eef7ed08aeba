"""The verifier reports every violation, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagrams.diagram import Choice, make_diagram, outcome_in
from archir.ir.graph import Constraint, Decision, Graph, Node
from archir.ir.op import Free
from archir.ir.reader import parse_graph
from archir.ir.structure import Input, Select
from archir.ir.verify import BrokenGraph, verify
from archir.ops.activation import LeakyRelu, Relu, Scale
from archir.ops.arithmetic import Add, Concat
from archir.ops.conv import Conv, Linear
from archir.ops.norm import BatchNorm
from archir.ops.shape import Reshape

TEXT = """
net tiny {
  choice a {1, 2}
  choice b {1, 2} when case(a: true, false)
  require case(a: true, false)
  %0 = input "x" f32[8]
  %1 = linear(%0, channels=8, bias=case(a: true, false)) @ one
  %2 = linear(%0, channels=8) @ two
  %3 = select(%1, %2) by b [0, 1]
  output y = %3
}
"""

Corrupt = Callable[[Graph], Any]
STRANGER = Choice("a", (1, 2), 0)


def node(op: Any, scope: str = "", *operands: int) -> Corrupt:
    """Add a node that is an output, so that it is needed."""

    def corrupt(graph: Graph) -> None:
        graph.outputs["new"] = graph.add(Node(op, scope=scope), *(operands or (0,)))

    return corrupt


def decision(path: str, **changes: Any) -> Corrupt:
    return lambda graph: graph.decisions.update({path: replace(graph.decisions[path], **changes)})


def renamed(path: str, /, **changes: Any) -> Corrupt:
    return lambda graph: decision(path, choice=replace(graph.decisions[path].choice, **changes))(graph)


def constraint(condition: Any, **changes: Any) -> Corrupt:
    return lambda graph: graph.constraints.append(Constraint(condition, text="deep", **changes))


@dataclass(frozen=True)
class _Undeclared(Free, abstract=True):
    pass


def varying(values: Any, op: Callable[[Any], Any]) -> Corrupt:
    """Add a node with an attribute that depends on `a`."""
    return lambda graph: node(op(make_diagram(graph.decisions["a"].choice, values)))(graph)


CORRUPTIONS: list[tuple[Corrupt, str]] = [
    (lambda graph: graph.nx.nodes[1].clear(), "%1 has no node"),
    (lambda graph: graph.nx.remove_node(2), "%2 has no node"),
    (lambda graph: graph.nx.add_node(7), "%7 was not added by `add`"),
    (node(Relu(), "", 9), "%4 reads %9, which does not exist"),
    (lambda graph: graph._operands.update({1: (2,)}), "%1 reads %2, which comes after it"),
    (lambda graph: graph.nx.remove_edge(0, 1), "networkx lacks an edge from %0 to %1 at position 0"),
    (lambda graph: graph.nx.add_edge(0, 1, key=5), "networkx has an edge from %0 to %1 at position 5"),
    (lambda graph: graph.nx.add_edge(3, 1, key=1), "there is a cycle"),
    (lambda graph: graph.outputs.update({"z": 9}), "the output `z` is %9, which does not exist"),
    (node(Relu(), "", 0, 0), "%4 (relu): `relu` takes 1 operands, not 2"),
    (node(Add(), "", 0), "`add` takes 2 operands, not 1"),
    (lambda graph: graph.add(Node(Concat())), "`concat` takes at least 1 operands, not 0"),
    (node(Select("c", (0, 0))), "there is no choice `c`"),
    (node(Select("a", (0,))), "`a` has 2 outcomes, but 1 cases are given"),
    (node(Select("a", (0, 1))), "a case of `select` is not a position of its 1 operands"),
    (node(Select("a", (0, -1))), "is not a position"),
    (node(Select("a", [0, 0])), "`cases` of `select` must be a list of integers"),
    (node(_Undeclared()), "there is no such operation"),
    (lambda graph: graph.add(Node(Input("x", (8,)))), "there are two inputs `x`"),
    (lambda graph: graph.add(Node(Input("z", (0,)))), "dimensions must be at least 1"),
    (lambda graph: graph.add(Node(Input("z", (8,), "f99"))), "there is no element type `f99`"),
    (node(Linear("8"), "new"), "`channels` of `linear` must be an integer"),
    (node(Linear(True), "new"), "`channels` of `linear` must be an integer"),
    (node(LeakyRelu("steep")), "`slope` of `leaky_relu` must be a number"),
    (node(Conv(8, padding=None), "new"), "`padding` of `conv` must be an integer or a string"),
    (varying((1.0, "2"), Scale), "`factor` of `scale` must be a number"),
    (node(Scale(make_diagram(STRANGER, (1.0, 2.0)))), "%4 (scale): depends on another choice `a` than the graph has"),
    (node(Scale(make_diagram(Choice("c", (1, 2), 9), (1.0, 2.0)))), "%4 (scale): there is no choice `c`"),
    (lambda graph: graph.decisions.pop("a"), "there is no choice `a`"),
    (decision("b", active=outcome_in(STRANGER, [0])), "the condition of `b`: depends on another choice `a`"),
    (decision("b", active=outcome_in(Choice("c", (1, 2), 9), [0])), "the condition of `b`: there is no choice `c`"),
    (decision("b", active=1), "the condition of `b` is not a condition"),
    (lambda g: decision("b", active=outcome_in(g.decisions["b"].choice, [0]))(g), "of `b` depends on `b` itself"),
    (renamed("b", path="c"), "the choice `c` is filed under `b`"),
    (renamed("b", order=0), "`b` and `a` have the same place in the order"),
    (constraint(3), "`require deep` is not a condition"),
    (constraint(outcome_in(STRANGER, [0])), "`require deep`: depends on another choice `a`"),
    (constraint(True, limit=make_diagram(STRANGER, (1, 2))), "`require deep`: depends on another choice `a`"),
    (node(Linear(8)), "%4 (linear): has weights but no scope"),
    (node(Linear(4), "two"), "%4 (linear): weights `two` have other shapes than at %2"),
    (node(Reshape((3,))), "%4 (reshape): f32[8] does not reshape to [3]"),
]


@pytest.mark.parametrize(("corrupt", "message"), CORRUPTIONS)
def test_each_violation_is_reported(corrupt: Corrupt, message: str) -> None:
    graph = parse_graph(TEXT)
    verify(graph)
    corrupt(graph)
    with pytest.raises(BrokenGraph) as caught:
        verify(graph)
    assert {d.code for d in caught.value.diagnostics} == {"A0706"}
    assert message in str(caught.value)


def test_shared_weights_have_one_shape() -> None:
    graph = parse_graph(TEXT)
    half = graph.add(Node(Reshape((2, 4))), 0)
    graph.outputs["new"] = graph.add(Node(Linear(8), scope="two"), half)
    with pytest.raises(BrokenGraph, match="weights `two` have other shapes than at %2"):
        verify(graph)


def test_shared_weight_shapes_may_differ_in_exclusive_alternatives() -> None:
    verify(
        parse_graph("""
        net tiny {
          choice a {1, 2}
          %0 = input "x" f32[8]
          %1 = slice(%0, stop=4)
          %2 = linear(%0, channels=8) @ shared
          %3 = linear(%1, channels=8) @ shared
          %4 = select(%2, %3) by a [0, 1]
          output y = %4
        }
    """)
    )


def test_weights_need_operands_that_have_channels() -> None:
    graph = Graph()
    scalar = graph.add(Node(Input("x", ())))
    graph.outputs["y"] = graph.add(Node(BatchNorm(), scope="norm"), scalar)
    with pytest.raises(BrokenGraph):
        verify(graph)


def test_all_violations_are_reported_together() -> None:
    graph = parse_graph(TEXT)
    node(Linear("8"))(graph)
    node(Select("c", (0, 0)))(graph)
    decision("b", active=1)(graph)
    with pytest.raises(BrokenGraph) as caught:
        verify(graph)
    assert len(caught.value.diagnostics) == 3


def test_violation_names_its_choices() -> None:
    graph = parse_graph(TEXT)
    graph.constraints.clear()  # which rule the outcome out
    choice = graph.decisions["a"].choice
    node(Reshape(make_diagram(choice, ((2, 4), (3,)))))(graph)
    with pytest.raises(BrokenGraph, match="when a = 2"):
        verify(graph)


def test_decisions_are_compared_by_identity() -> None:
    graph = parse_graph(TEXT)
    graph.decisions["a"] = Decision(STRANGER)
    with pytest.raises(BrokenGraph) as caught:
        verify(graph)
    assert len(caught.value.diagnostics) == 3  # the attribute, the condition of `b`, the constraint


def test_operands_that_are_never_chosen_are_fine() -> None:
    graph = parse_graph(TEXT)
    graph.outputs["new"] = graph.add(Node(Select("a", (0, 0)), scope="a"), 3, graph.add(Node(Relu()), 0))
    verify(graph)
