"""Types recorded during elaboration equal those inferred from the graph."""

from __future__ import annotations

import pytest

from archir.ir import typing
from archir.ir.reachability import reachability_conditions
from tests.examples import NETS, small_graph
from tests.soak import with_soak

FEW = [net for net in NETS if not any(name in net for name in ("101", "fpn", "nos.arch", "search.arch", "imagenet"))]
"""Without those whose requirements let one type be written in several ways, and without what takes seconds."""


@pytest.mark.parametrize("net", with_soak(FEW, FEW[::3]))
def test_recorded_types_of_examples_equal_inferred_ones(net: str) -> None:
    graph = small_graph(net)
    assert typing._recorded[graph].covered == len(graph)
    assert typing.infer(graph) == typing.infer_reachable(graph, reachability_conditions(graph))
