"""The opset of a model: the lowest that suits the network and the runtime; runtimes that are installed load it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir_onnx import BACKEND as ONNX
from archir_onnx.lowering.export_options import PORTABLE_OPSET, RUNTIMES
from archir_onnx.quantization import Mode
from benchmarks.runtimes import RUNTIMES as OTHERS
from benchmarks.runtimes import difference, missing
from tests.onnx_backend.quantised import noise

NETS = {
    "convolutions": "x |> conv(8, kernel=3) |> batch_norm |> relu |> max_pool(kernel=2, stride=2) |> global_avg_pool",
    "mish": "x |> conv(8, kernel=3) |> mish |> global_avg_pool",
    "gelu": "x |> conv(8, kernel=3) |> gelu |> max_pool(kernel=2, stride=2) |> global_avg_pool",
    "group norm": "x |> conv(8, kernel=3) |> group_norm(2) |> mish |> global_avg_pool",
    "attention": "x |> patch_embedding(16, 4) |> rms_norm |> multi_head_attention(4) |> mean_over(0)",
    "linear": "x |> flatten",
}
OPSETS = {"convolutions": 17, "mish": 18, "gelu": 20, "group norm": 21, "attention": 17, "linear": 17}
"""Lowest opset with an operator for every operation, of those that all runtimes have kernels for."""


def exported(name: str, path: Path, **options: object) -> onnx.ModelProto:
    space = archir.loads(
        f"import std.attention\nimport std.transformer\n"
        f"net n {{\n    input x: f32[3, 16, 16]\n    output y = {NETS[name]} |> linear(4)\n}}\n"
    )
    archir.export(space, path, archir.compile(space), **options)  # type: ignore[arg-type]
    return onnx.load(path)


def opset_of(model: onnx.ModelProto) -> int:
    (opset,) = (entry.version for entry in model.opset_import if entry.domain == "")
    return opset


@pytest.mark.parametrize("name", NETS)
def test_default_opset_is_the_lowest_that_suits_the_network(name: str, tmp_path: Path) -> None:
    model = exported(name, tmp_path / "net.onnx")
    assert opset_of(model) == OPSETS[name] <= PORTABLE_OPSET
    assert all(entry.domain == "" for entry in model.opset_import)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_opset_stays_within_the_kernels_of_the_runtime(runtime: str, tmp_path: Path) -> None:
    for name in NETS:
        model = exported(name, tmp_path / "net.onnx", runtime=runtime)
        assert opset_of(model) <= RUNTIMES[runtime]
        operators = {node.op_type for node in model.graph.node}
        assert ("RMSNormalization" in operators) == (name == "attention" and runtime == "cpu")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"runtime": "cuda", "opset": 23}, "cuda lacks kernels of opset 23; its latest is 21"),
        ({"runtime": "ncnn", "attention": "standard"}, "needs opset 23; the latest of ncnn is 17"),
        ({"runtime": "openvino", "attention": "fused"}, "which openvino does not have"),
        ({"runtime": "tpu"}, "there is no runtime `tpu`"),
        ({"opset": 17, "attention": "standard"}, "opset 17 has no attention operator"),
    ],
)
def test_rejects_options_that_exclude_the_runtime(options: dict[str, object], text: str, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=text):
        exported("attention", tmp_path / "net.onnx", **options)
    assert not [*tmp_path.iterdir()]


def test_bfloat16_and_standard_attention_get_an_opset_that_has_them(tmp_path: Path) -> None:
    assert opset_of(exported("convolutions", tmp_path / "a.onnx", precision="bfloat16")) == 22
    assert opset_of(exported("attention", tmp_path / "b.onnx", attention="standard")) == 23


@pytest.mark.parametrize("runtime", [name for name, limit in RUNTIMES.items() if limit < 22])
def test_bfloat16_stays_within_the_kernels_of_the_runtime(runtime: str, tmp_path: Path) -> None:
    expected = f"A0911.*`Conv`.* need opset 22; the latest of {runtime} is {RUNTIMES[runtime]}\n  hint: use --fp16"
    for options in ({}, {"opset": 17}):
        with pytest.raises(ArchError, match=expected):
            exported("convolutions", tmp_path / "net.onnx", precision="bfloat16", runtime=runtime, **options)
    assert not [*tmp_path.iterdir()]
    model = exported("linear", tmp_path / "net.onnx", precision="bfloat16", runtime=runtime)
    assert opset_of(model) == RUNTIMES[runtime]


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("runtime", OTHERS)
def test_other_runtimes_compute_the_same(runtime: str, name: str, precision: str, tmp_path: Path) -> None:
    if reason := missing(runtime):
        pytest.skip(reason)
    exported(name, tmp_path / "net.onnx", precision=precision)
    assert _difference(runtime, tmp_path / "net.onnx") <= (1e-5 if precision == "float32" else 1e-2)


TOKENS = """
import std.attention
import std.transformer
net n {
    input x: f32[3, 16, 16]
    patches = x |> patch_embedding(16, 4)
    seen = concat(parameter([1, 16]), patches, axis=0) |> multi_head_attention(4)
    output y = seen |> mean_over(0) |> linear(4)
}
"""


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("runtime", OTHERS)
def test_int8_models_with_class_tokens_run_in_other_runtimes(runtime: str, mode: Mode, tmp_path: Path) -> None:
    if reason := missing(runtime):
        pytest.skip(reason)
    space = archir.loads(TOKENS)
    archir.export(space, tmp_path / "net.onnx", archir.compile(space))
    made = ONNX.quantize(tmp_path / "net.onnx", tmp_path / "int8.onnx", noise("x", (3, 16, 16)), mode=mode, seconds=0)
    assert len(made.in_float) == {"static": 2, "dynamic": 1}[mode]
    assert _difference(runtime, tmp_path / "int8.onnx") <= 0.05


def _difference(runtime: str, path: Path) -> float:
    """Return the largest difference between a runtime and onnxruntime, relative to the largest output."""
    inputs = {"x": np.random.default_rng(0).normal(size=(2, 3, 16, 16)).astype(np.float32)}
    return difference(OTHERS[runtime](path, [inputs]), [ONNX.run(path, inputs)])
