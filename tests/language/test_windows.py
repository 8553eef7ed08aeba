"""Windows of tokens: three axes are a map, and attention within windows is along one of its axes."""

from __future__ import annotations

import pytest

import archir
from archir.base.errors import ArchError
from archir.ir.typing import infer


def test_tokens_in_windows_taken_for_a_map_are_told_how_to_be_said() -> None:
    text = "net n {\n    input x: f32[9, 16, 64]\n    output y = attention(x, x, x, heads=8)\n}\n"
    with pytest.raises(ArchError) as refusal:
        archir.loads(text)
    assert "windows of tokens" in str(refusal.value.diagnostics[0].hint)
    assert "axial_attention" in str(refusal.value.diagnostics[0].hint)


def test_tokens_are_attended_to_within_windows() -> None:
    text = """net n {
    input x: f32[9, 16, 64]
    q = x |> transpose(axes=[2, 0, 1])
    y = axial_attention(q, q, q, axis="width", heads=8, relative=false, scale=1 / 3)
    output z = y |> transpose(axes=[1, 2, 0])
}
"""
    space = archir.loads(text)
    graph = space.graph
    assert infer(graph)[graph.outputs["z"]].shape == (9, 16, 64)
    # queries with keys, and weights with values, of the 16 tokens of a window alone
    assert space.cost([space.sample(0)])["macs"].tolist() == [9 * 16 * 16 * 64 * 2]
