"""Networks keep inputs that the chosen architecture does not use."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import archir
from archir_torch.lowering.module import lower

TEXT = """
net two {
    input image: f32[3, 4, 4]
    input other: f32[5]
    output y = choose y { a: image |> global_avg_pool |> linear(5), b: other |> relu }
}
"""


@pytest.mark.parametrize("choice", ["a", "b"])
def test_unused_inputs_stay(choice: str, tmp_path: Path) -> None:
    space = archir.loads(TEXT)
    graph = space.specialize(space.architecture({"y": choice}))
    module = lower(graph).eval()
    assert module.input_names == ("image", "other")
    assert module(torch.zeros(2, 3, 4, 4), torch.zeros(2, 5)).shape == (2, 5)
    report = archir.export(graph, tmp_path / "two.onnx", module)
    assert report.relative < 1e-5
