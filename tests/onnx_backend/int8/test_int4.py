"""Weights of linear layers in 4 bits: smaller files for language models, and layers that do not qualify."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir_onnx import BACKEND as ONNX
from archir_onnx.quantization.sensitivity import relative_error
from archir_onnx.quantization.speed import reasons_for_slowness
from tests.onnx_backend.quantised import noise

LANGUAGE = """
net language {
    input tokens: i64[8]
    x = tokens |> embedding(256, 64)
    x = x + (x |> linear(256) |> gelu |> linear(64))
    output next = x |> linear(256)
}
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Return a file of text, one line for a sample."""
    path = tmp_path / "text.txt"
    path.write_text("a small text that repeats itself\n" * 40)
    return path


@pytest.fixture
def language(tmp_path: Path) -> Path:
    """Return a model of tokens with random weights."""
    space = archir.loads(LANGUAGE)
    archir.export(space, tmp_path / "language.onnx", archir.compile(space))
    return tmp_path / "language.onnx"


def test_language_model_gets_4_bit_weights(language: Path, text: Path, tmp_path: Path) -> None:
    output = tmp_path / "int4.onnx"
    arguments = ["--mode", "int4", "--data", f"text:{text}", "--seconds", "0.05"]
    result = CliRunner().invoke(main, ["quantize", str(language), "-o", str(output), *arguments])
    assert result.exit_code == 0, result.output
    assert "wrote" in result.stdout
    assert "int4, 3 of 3 layers" in result.stdout
    report = json.loads((tmp_path / "int4.onnx.int8.json").read_text())
    linear = 3 * 64 * 256
    assert report["bytes_before"] - report["bytes_after"] > 0.8 * 4 * linear
    model = onnx.load(output)
    assert sum(node.op_type == "MatMulNBits" for node in model.graph.node) == 3
    tokens = {"tokens": np.random.default_rng(0).integers(0, 256, (2, 8))}
    (wanted,), (found,) = (ONNX.run(path, tokens).values() for path in (language, output))
    assert 0.01 < relative_error(found, wanted) < 0.25
    assert ONNX.verify(output).differences["CPUExecutionProvider"] <= 1e-6
    assert ("int4 is not faster here" in result.stderr) == (report["speed"]["after"] >= report["speed"]["before"])
    assert "3 layers unpack 4-bit weights" in reasons_for_slowness(output)[0]
    with pytest.raises(ArchError, match="already quantised: it has MatMulNBits"):
        archir.quantize(output, tmp_path / "again.onnx", data=f"text:{text}")


def test_convolutions_stay_in_float_and_gemms_do_not(tmp_path: Path) -> None:
    net = "image |> conv(8, kernel=3) |> relu |> flatten |> linear(10)"
    graph = archir.loads(f"net n {{\n input image: f32[1, 8, 8]\n output y = {net}\n}}").graph
    archir.export(graph, tmp_path / "net.onnx", archir.compile(graph))
    made = ONNX.quantize(
        tmp_path / "net.onnx", tmp_path / "int4.onnx", noise("image", (1, 8, 8)), mode="int4", seconds=0
    )
    assert {row.operator: row.why for row in made.layers} == {"Conv": "a convolution, in int4 mode", "Gemm": None}


def test_missing_package_is_named(language: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnxruntime.quantization.matmul_nbits_quantizer", raising=False)
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    with pytest.raises(ArchError, match="4-bit weights need the package onnx-ir") as caught:
        archir.quantize(language, tmp_path / "int4.onnx", data=f"text:{text}", mode="int4", seconds=0)
    assert caught.value.diagnostics[0].hint == "pip install onnx-ir"
