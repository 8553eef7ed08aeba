"""Reachability conditions of nodes, exact or overapproximated."""

from __future__ import annotations

from contextlib import suppress

import pytest

from archir.diagnostics.errors import ArchError
from archir.diagrams import conditions, diagram, lifting
from archir.diagrams.conditions import project
from archir.diagrams.diagram import support, value_at
from archir.ir.graph import Decision, Graph, Node, NodeId
from archir.ir.reachability import _ReachabilityAnalysis, reachability_conditions, reachable_nodes
from archir.ir.structure import Input, Select
from archir.ir.verify import verify
from archir.language.elaboration.elaborate import elaborate
from archir.ops.activation import Relu
from archir.passes.prune import prune
from archir.spaces.space import Space
from tests.language.reference.grow import program

ORDERED = """
net ordered(n = %d) {
    input x: f32[8, 4, 4]
    order = [choose order(0..n) for i in 0..n]
    require all([order[i] != order[j] for i in 0..n for j in 0..i])
    made = [x |> conv(8, kernel=1) for i in 0..n]
    last = made[0]
    for i in 0..n {
        pair = choose pair 2 of made
        last = pair[0] + pair[1] |> conv(8)
        made = [last if order[i] == j else made[j] for j in 0..n]
    }
    output y = sum(made)
}
"""
SKIPS = """
net skips(layers = %d) {
    input x: f32[64]
    for i in 0..layers {
        width = choose width(0, 16, 32, 48, 64)
        x = x if width == 0 else x |> linear(width)
    }
    output y = x |> linear(10)
}
"""


def read(graph: Graph, outcomes: dict[str, int]) -> set[NodeId]:
    """The nodes that an architecture needs, found by walking from the outputs."""
    found: set[NodeId] = set()
    stack = list(graph.outputs.values())
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            op, operands = graph[number].op, graph.operands(number)
            stack += [operands[op.cases[outcomes.get(op.choice, 0)]]] if isinstance(op, Select) else operands
    return found


@pytest.mark.parametrize(("n", "loose"), [(3, False), (7, True)])
def test_reachability_of_chosen_order_covers_nodes_used(n: int, loose: bool) -> None:
    graph = elaborate(ORDERED % n)
    verify(graph)
    needed = reachability_conditions(graph)
    assert bool(needed.overapproximated) == loose
    space = Space(graph)
    for seed in range(20):
        outcomes = space.sample(seed).outcomes
        used = read(graph, outcomes)
        assert used <= {number for number, condition in needed.items() if value_at(condition, outcomes)}
        exact = needed.keys() - needed.overapproximated
        assert used & exact == {number for number in exact if value_at(needed[number], outcomes)}


@pytest.mark.parametrize("told", [0, 40])
def test_inexact_reachability_is_marked_and_overapproximates(told: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind nodes whose condition was given up for one that always holds."""
    graphs = [elaborate(SKIPS % 6), elaborate(ORDERED % 4)]
    for seed in range(24):
        with suppress(ArchError):
            graphs.append(elaborate(program(seed)))
    exact = [reachability_conditions(graph, exact=True) for graph in graphs]
    monkeypatch.setattr("archir.ir.reachability.MAX_EXACT_SIZE", told)
    monkeypatch.setattr("archir.ir.reachability.MAX_EXACT_SIZE_PER_NODE", 0)
    monkeypatch.setattr("archir.ir.reachability.project", lambda condition, choices: condition is not False)
    loose = 0
    for graph, known in zip(graphs, exact, strict=True):
        rough = _ReachabilityAnalysis(graph, False).run()
        loose += len(rough.overapproximated)
        assert known.keys() <= rough.keys()
        for number in rough.keys() - rough.overapproximated:
            assert rough[number] == known.get(number, False)
    assert loose > 20


def test_operands_of_inexact_nodes_are_inexact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.ir.reachability.MAX_EXACT_SIZE", 0)
    monkeypatch.setattr("archir.ir.reachability.MAX_EXACT_SIZE_PER_NODE", 0)
    text = "net n {\n input x: f32[8]\n y = x |> linear(8) |> relu\n z = choose z(y, x)\n output o = z |> linear(4)\n}"
    graph = elaborate(text)
    needed = _ReachabilityAnalysis(graph, False).run()
    names = {graph[number].op.name for number in needed.overapproximated}
    assert names == {"linear", "relu"}, "what is read by the first linear map alone is sure, the map is not"


def test_skippable_layers_do_not_grow_work_exponentially(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    case = diagram.make_diagram

    def counted(*arguments: object) -> object:
        nonlocal made
        made += 1
        return case(*arguments)  # type: ignore[arg-type]

    for module in (diagram, conditions, lifting):
        monkeypatch.setattr(module, "make_diagram", counted)
    counts = []
    for layers in (6, 12, 24):
        made = 0
        verify(elaborate(SKIPS % layers))
        counts.append(made)
    assert counts[1] < 6 * counts[0]
    assert counts[2] < 6 * counts[1]


def test_projection_is_strongest_condition_on_kept_choices() -> None:
    choices = [diagram.Choice(path, (0, 1, 2), order) for order, path in enumerate("abc")]
    a, b, c = choices
    condition = conditions.disjoin(
        conditions.conjoin(diagram.outcome_in(a, [0]), diagram.outcome_in(b, [1])),
        conditions.conjoin(diagram.outcome_in(a, [1]), diagram.outcome_in(c, [2])),
    )
    for kept in ([a], [b], [a, c], []):
        weaker = project(condition, kept)
        assert set(support(weaker)) <= set(kept)
        for outcomes in ({"a": i, "b": j, "c": k} for i in range(3) for j in range(3) for k in range(3)):
            fixed = condition
            for choice in kept:
                fixed = diagram.fix_choice(fixed, choice, outcomes[choice.path])
            assert value_at(weaker, outcomes) == (True in diagram.leaves(fixed))


@pytest.fixture
def unpruned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are elaborated with all that they make."""
    monkeypatch.setattr("archir.language.elaboration.elaborate.prune", lambda graph: graph)


@pytest.mark.usefixtures("unpruned")
def test_reachable_nodes_equal_nodes_with_conditions() -> None:
    found = dropped = 0
    for text in [*map(program, range(60)), SKIPS % 3, ORDERED % 4]:
        try:
            graph = elaborate(text)
        except ArchError:
            continue
        surely = reachable_nodes(graph)
        if surely is not None:
            found += 1
            dropped += len(surely) < len(graph)
            assert surely == reachability_conditions(graph).keys()
    assert found > 20
    assert dropped > 5


def test_dead_node_behind_nested_selects_is_found_by_conditions() -> None:
    choice = diagram.Choice("c", (0, 1), 0)
    graph = Graph()
    graph.decisions["c"] = Decision(choice)
    x = graph.add(Node(Input("x", (8,))))
    dead = graph.add(Node(Relu()), x)
    inner = graph.add(Node(Select("c", (0, 1))), dead, x)
    graph.outputs = {"y": graph.add(Node(Select("c", (0, 1))), x, inner)}
    assert reachable_nodes(graph) is None
    assert dead not in reachability_conditions(graph)
    assert len(prune(graph)) == len(graph) - 1
