"""Attention within windows of tokens and on 3D maps (films) along one axis."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.typing import infer


def test_attention_on_windowed_tokens_hints_at_along() -> None:
    text = "net n {\n    input x: f32[9, 16, 64]\n    output y = attention(x, x, x, heads=8)\n}\n"
    with pytest.raises(ArchError) as refusal:
        archir.loads(text)
    assert "windows of tokens" in str(refusal.value.diagnostics[0].hint)
    assert 'along="width"' in str(refusal.value.diagnostics[0].hint)


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


FILM = """
block attend(x, heads, axis, causal = false) {
    query = x |> conv(x.channels, kernel=1)
    key = x |> conv(x.channels, kernel=1)
    value = x |> conv(x.channels, kernel=1)
    return attention(query, key, value, heads, along=axis, causal=causal) |> conv(x.channels, kernel=1)
}

# divided attention over time and within frames (Bertasius et al. 2021, section 4)
net film(frames = 4, patches = 9) {
    input x: f32[16, frames, patches]
    width = choose width(8, 16)
    x = x |> conv(width, kernel=1)
    x = x + (x |> layer_norm |> attend(choose heads(2, 4), "height", causal=true))
    x = x + (x |> layer_norm |> attend(2, "width"))
    x = x + (x |> layer_norm |> conv(4 * width, kernel=1) |> gelu |> conv(width, kernel=1))
    output y = x
}
"""


def test_causal_film_attention_never_sees_later_frames(tmp_path: Path) -> None:
    space = archir.loads(FILM)
    for seed in range(4):
        graph = space.specialize(space.sample(seed))
        width = graph_channels(graph)
        projections = 16 * width + (8 + 8) * width**2
        assert archir.cost(graph).macs == 36 * projections + 36 * (4 + 9) * 2 * width
        network = archir.compile(graph).eval()
        x = torch.randn(2, 16, 4, 9, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            y, later = network(x), x.clone()
            later[:, :, 2:] += 1
            assert torch.equal(network(later)[:, :, :2], y[:, :, :2])  # no frame sees later ones
        assert archir.export(graph, tmp_path / "film.onnx", network).relative < 1e-5


def graph_channels(graph: archir.Graph) -> int:
    return infer(graph)[graph.outputs["y"]].channels


def test_attention_along_axis_equals_attention_per_line() -> None:
    text = 'net n {\n input x: f32[8, 2, 3, 5]\n output y = attention(x, x, x, 2, along="AXIS", window=2)\n}'
    x = torch.randn(1, 8, 2, 3, 5, generator=torch.Generator().manual_seed(0))
    for axis, name in enumerate(("depth", "height", "width"), 2):
        graph = archir.loads(text.replace("AXIS", name)).graph
        found = archir.compile(graph)(x)
        lines = x.movedim(axis, -1).movedim(1, -1).flatten(0, -3)
        count = lines.shape[1]
        tokens = archir.loads(f"net n {{\n input x: f32[{count}, 8]\n output y = attention(x, x, x, 2, window=2)\n}}")
        wanted = archir.compile(tokens.graph)(lines)
        torch.testing.assert_close(found.movedim(axis, -1).movedim(1, -1).flatten(0, -3), wanted)


@pytest.mark.parametrize(
    ("shape", "axis", "message"),
    [
        ("12, 8", "width", "expected a map"),
        ("8, 3, 5", "depth", "expected a volume"),
        ("8, 3, 5", "rows", 'must be "all" or "depth"'),
    ],
)
def test_attention_rejects_missing_axis(shape: str, axis: str, message: str) -> None:
    text = f'net n {{\n input x: f32[{shape}]\n output y = attention(x, x, x, along="{axis}")\n}}'
    with pytest.raises(ArchError, match=message):
        archir.loads(text)


def test_attention_along_axis_requires_equal_other_axes() -> None:
    text = "net n {\n input x: f32[8, 3, 5]\n y = x |> slice(0, 2, axis=1)\n"
    text += ' output z = attention(x, y, y, along="width")\n}'
    with pytest.raises(ArchError, match="differ in axes other than the width"):
        archir.loads(text)
    across = archir.loads(text.replace('"width"', '"height"')).graph
    assert infer(across)[across.outputs["z"]].shape == (8, 3, 5)
