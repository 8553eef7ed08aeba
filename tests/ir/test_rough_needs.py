"""Nodes that every architecture needs, in small and in large graphs."""

from __future__ import annotations

import pytest

import archir
from archir.ir import reachability
from archir.ir.reachability import approximate_reachability

GRAPH = archir.loads("""
net needs() {
    input x: f32[8]
    shared = x |> linear(8)
    unused = x |> linear(2)
    y = choose y { left: shared |> relu, right: shared |> gelu }
    output y = y |> linear(4)
}
""").graph


def always() -> set[str]:
    found = approximate_reachability(GRAPH)
    sure = {number for number in found if number not in found.overapproximated}
    assert all(found[number] is True for number in sure)
    return {GRAPH[number].op.name for number in sure}


def test_nodes_read_by_both_alternatives_are_always_needed() -> None:
    assert always() == {"input", "linear", "select"}
    assert len([n for n in approximate_reachability(GRAPH) if GRAPH[n].op.name == "linear"]) == 2, (
        "what nobody reads is not made"
    )


def test_large_graph_reachability_stops_at_selections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "MAX_SELECT_NODES", 0)
    assert always() == {"linear", "select"}
    found = approximate_reachability(GRAPH)
    assert len([n for n in found if n not in found.overapproximated and GRAPH[n].op.name == "linear"]) == 1
