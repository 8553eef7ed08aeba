"""Constants of real numbers and truth values: masks that are written down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import archir
from archir.diagnostics.errors import ArchError
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from tests.torch_backend.export.test_emit import imported, last_class

NET = """
net windowed() {
    input x: f32[4, 8]
    band = constant(x, [abs(i - j) <= 1 for i in 0..4 for j in 0..4], dtype="bool") |> reshape([4, 4])
    y = attention(x, x, x, band, heads=2)
    output y = y * (constant(x, [1, 0.5, 0.25, 2], dtype="f32") |> reshape([4, 1]))
}
"""


def test_constant_mask_and_weights_work_in_torch_and_onnx(tmp_path: Path) -> None:
    """In torch, as a file of torch and as ONNX; texts of graphs keep them; what is equal as a number is not a mask."""
    graph = archir.loads(NET).graph
    module = TORCH.lower(graph).eval()
    x = torch.randn(3, 4, 8)
    found = module(x)
    moved = x.clone()
    moved[:, 3] += 1
    assert torch.equal(module(moved)[:, :2], found[:, :2])
    assert not torch.equal(module(moved)[:, 2], found[:, 2])
    archir.export(graph, tmp_path / "net.onnx", module, dynamic=("batch",))
    assert np.abs(ONNX.run(tmp_path / "net.onnx", {"x": x.numpy()})["y"] - found.detach().numpy()).max() < 1e-5
    text = TORCH.emit(graph)
    made = getattr(imported(tmp_path / "net.py", text), last_class(text))()
    made.load_state_dict(module.state_dict())
    torch.testing.assert_close(made.eval()(x), found)
    kinds = archir.loads(
        'net n {\n input x: f32[4]\n output i = constant(x, [1, 0])\n output f = constant(x, [1, 0], dtype="f32")\n}'
    ).graph
    assert [TORCH.lower(kinds)(torch.zeros(1, 4))[name].dtype for name in "if"] == [torch.int64, torch.float32]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("[1, 0.5]", r'`values` of i64 hold 0.5\n.*hint: write `dtype="f32"`'),
        ("[true]", r'`values` of i64 hold true\n.*hint: write `dtype="bool"`'),
        ('[1], dtype="bool"', "`values` of bool hold 1"),
        ('[], dtype="f32"', "`values` is an empty list"),
    ],
)
def test_rejects_invalid_constant_values(values: str, said: str) -> None:
    with pytest.raises(ArchError, match=f"(?s){said}"):
        archir.loads(f"net n {{\n input x: f32[4]\n output y = constant(x, {values})\n}}")
