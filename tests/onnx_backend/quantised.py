"""Properties of every int8 network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import archir
from archir.backends.samples import Samples
from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir_onnx import BACKEND as ONNX
from archir_onnx.quantization import Mode, Quantised
from archir_onnx.quantization.sensitivity import relative_error
from archir_torch import BACKEND as TORCH

ERROR = 0.35
"""Largest relative error of outputs. Untrained networks may amplify what differs: trained ones are within 0.1."""


def noise(name: str, size: tuple[int, ...], count: int = 16, seed: int = 0) -> Samples:
    """Return normal noise as samples without measures."""
    rng = np.random.default_rng(seed)
    return Samples({name: rng.standard_normal((count, *size)).astype(np.float32)})


def assert_quantises(graph: Graph, folder: Path, mode: Mode = "auto") -> Quantised:
    """Assert that an untrained network of one image input is quantised: verified, certified, run, and close to
    float32."""
    module = TORCH.lower(graph).eval()
    archir.export(graph, folder / "float.onnx", module)
    ((name, number),) = graph.inputs.items()
    size = infer(graph)[number].shape
    quantised = ONNX.quantize(folder / "float.onnx", folder / "int8.onnx", noise(name, size), mode=mode, seconds=0)
    assert ONNX.verify(folder / "int8.onnx").differences["CPUExecutionProvider"] <= 1e-6
    fresh = noise(name, size, 4, 1).training
    float_outputs, int8_outputs = (ONNX.run(folder / file, fresh) for file in ("float.onnx", "int8.onnx"))
    assert float_outputs.keys() == int8_outputs.keys()
    for name, array in int8_outputs.items():
        assert np.isfinite(array).all()
        assert relative_error(array, float_outputs[name]) <= ERROR
    assert len(quantised.in_float) < len(quantised.layers)
    return quantised
