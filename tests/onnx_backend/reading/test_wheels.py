"""Trained ONNX models shipped in Python packages import correctly, and networks like them survive export and import."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import archir
from archir.backends.imports import program_of
from archir_torch.lowering.module import lower
from tests.onnx_backend.reading.test_reading import file, node

WHEELS: dict[str, tuple[str, tuple[int, ...], int, int]] = {
    "models/standard_v3_3/model.onnx": ("magika", (2048,), 784_214, 33),
    "models/ch_PP-OCRv4_det_infer.onnx": ("rapidocr_onnxruntime", (3, 64, 64), 1_171_464, 271),
    "models/ch_PP-OCRv4_rec_infer.onnx": ("rapidocr_onnxruntime", (3, 48, 320), 2_688_397, 215),
    "models/ch_ppocr_mobile_v2.0_cls_infer.onnx": ("rapidocr_onnxruntime", (3, 48, 192), 128_346, 80),
}
"""Where a model lies, its input, its parameters, and the most lines that it may become."""


@pytest.mark.soak
@pytest.mark.parametrize("name", WHEELS)
def test_trained_models_from_python_packages_import(name: str) -> None:
    """Which compares them with onnxruntime."""
    package, shape, params, lines = WHEELS[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"not installed: {package}, whose wheel has the model")
    imported = archir.from_onnx(Path(spec.origin).parent / name, shapes={"": shape})
    assert archir.cost(imported.graph).params == params
    assert program_of(imported).lines <= lines


def test_padding_masks_and_top_k_survive_import(tmp_path: Path) -> None:
    graph = archir.loads("""
        net n {
            input ids: i64[6]
            x = (ids |> embedding(9, 4)) + (ids |> positions(padding=1) |> embedding(9, 4))
            shown = ids |> equal(1) |> to_numbers
            output mean = x |> sum_over(1) |> cumsum
            output end = gather(x, ids |> equal(5) |> to_numbers |> top_positions(1)) |> flatten
            output best = x |> top_k(2)
            output padded = x * (shown |> reshape([6, 1]))
        }
    """).graph
    torch.manual_seed(0)
    archir.export(graph, tmp_path / "net.onnx", lower(graph).eval())
    imported = archir.from_onnx(tmp_path / "net.onnx")
    assert archir.canonical_hash(imported.graph) == archir.canonical_hash(graph)


def test_sigmoid_underflow_does_not_fail_comparison(tmp_path: Path) -> None:
    """onnxruntime gives 0 for the sigmoid of -20, and torch 2e-9: neither is wrong, and nothing is told by it."""
    nodes = [node("Add", "x b", "s"), node("Sigmoid", "s", "y")]
    path = file(tmp_path / "m.onnx", nodes, {"b": np.full(4, -20, np.float32)}, shape=("N", 4))
    assert archir.from_onnx(path).graph.inputs
