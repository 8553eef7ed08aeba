"""Stacked cells of the library: the cell of PNAS, auxiliary towers, taps, and stems."""

from __future__ import annotations

from pathlib import Path

import pytest

import archir
from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir.ops.conv import Conv
from tests.architectures import assert_works

PNAS = """
import std.cells

cell normal(a, b, affine, settings) {
    return pnas_cell(a, b)
}

cell reduction(a, b, affine, settings) {
    return pnas_cell(a, b, stride=2)
}

net pnas(channels = 4, cells = 3, large = false, auxiliary = false) {
    input image: f32[3, 64, 64]
    stem = image |> large_stem(channels) if large else image |> small_stem(channels)
    x, side, taps = stacked_cells(stem, normal, reduction, channels, cells, large)
    output logits = x |> global_avg_pool |> linear(10)
    if auxiliary {
        output auxiliary = side |> auxiliary_tower(10)
    }
    output tap = taps[0]
}
"""


def shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    types = infer(graph)
    return {name: types[number].shape for name, number in graph.outputs.items()}


@pytest.mark.parametrize("large", [False, True])
def test_pnas_network_trains_and_exports(large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = archir.loads(PNAS, large=large).graph
    assert_works(graph, tmp_path, monkeypatch)


def test_widths_double_where_sizes_halve() -> None:
    """Five nodes side by side: five times the width of a cell, which starts at 4 and doubles twice."""
    found = shapes(archir.loads(PNAS, cells=6, auxiliary=True).graph)
    assert found == {"logits": (10,), "auxiliary": (10,), "tap": (20, 64, 64)}
    assert shapes(archir.loads(PNAS, cells=6, large=True).graph)["tap"] == (20, 8, 8)


def test_the_cell_of_pnas_has_ten_operations() -> None:
    graph = archir.loads(PNAS, cells=3).graph
    first = [graph[number] for number in graph if graph[number].scope.startswith("stacked_cells.normal[0]")]
    pools = [node for node in first if node.op.name == "max_pool"]
    depthwise = [node for node in first if node.op.name == "conv" and node.op.attributes()["groups"] != 1]
    assert (len(pools), len(depthwise)) == (3, 2 * 6)


def test_default_choice_of_cell_is_made_once() -> None:
    text = """
cell c(x, w = choose w(4, 8)) {
    return x |> conv(w) |> choose op { a: relu, b: gelu } |> conv(4)
}
net n {
    input x: f32[4, 8, 8]
    for i in 0..2 {
        x = x |> c |> c(w=6)
    }
    output y = x |> c
}
"""
    space = archir.loads(text)
    assert [choice.path for choice in space.choices] == ["c.w", "c.op"]
    assert space.size == 4
    network = space.specialize(space.architecture({"c.w": 8, "c.op": "a"}))
    widths = [network[number].op.channels for number in network if isinstance(network[number].op, Conv)]
    assert widths == [8, 4, 6, 4, 8, 4, 6, 4, 8, 4]
