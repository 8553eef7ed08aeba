"""`archir compile` to ONNX has the options of `archir export`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.data.metadata import labels_in
from archir_torch import BACKEND as TORCH

NET = """net tiny {
    input image: f32[3, 16, 16]
    output y = image |> conv(8, kernel=3) |> gelu |> global_avg_pool |> linear(4)
}
"""
TEXTS = """net texts {
    input tokens: i64[12]
    output y = tokens |> embedding(50, 8) |> position_embedding |> linear(4)
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "net.arch").write_text(NET)
    return tmp_path / "net.arch"


def compiled(net: Path, *options: str) -> onnx.ModelProto:
    output = net.with_suffix(".onnx")
    result = CliRunner().invoke(main, ["compile", str(net), "-o", str(output), "--force", *options])
    assert result.exit_code == 0, result.output
    return onnx.load(output)


def sizes(model: onnx.ModelProto) -> list[str | int]:
    return [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]


def test_options_set_opset_precision_and_axes(net: Path) -> None:
    model = compiled(net, "--opset", "18", "--fp16", "--batch", "2")
    assert model.opset_import[0].version == 18
    assert sizes(model) == [2, 3, 16, 16]
    assert {tensor.data_type for tensor in model.graph.initializer} >= {onnx.TensorProto.FLOAT16}
    assert compiled(net, "--for", "ncnn").opset_import[0].version == 17
    open_ = sizes(compiled(net, "--dynamic", "batch,height,width"))
    assert [isinstance(size, str) for size in open_] == [True, False, True, True]


def test_tokens_can_be_open(net: Path) -> None:
    net.write_text("import std.transformer\n" + TEXTS)
    assert [isinstance(size, str) for size in sizes(compiled(net, "--dynamic", "batch,tokens"))] == [True, True]


def test_preprocess_normalizes_images_by_given_numbers(net: Path, tmp_path: Path) -> None:
    compiled(net)
    plain = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    (tmp_path / "net.onnx").rename(tmp_path / "plain.onnx")
    model = compiled(net, "--preprocess", "0.5,0.4,0.3/0.2,0.25,0.3")
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
    raw = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
    (found,) = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"image": raw})
    mean, std = (np.array(numbers, np.float32) for numbers in ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)))
    images = ((raw.astype(np.float32) / 255 - mean) / std).transpose(0, 3, 1, 2)
    (wanted,) = plain.run(None, {"image": images})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("output", "options", "text"),
    [
        ("net.py", ["--fp16"], "--fp16 is only for ONNX models, not for --to torch"),
        ("net.ir", ["--preprocess", "imagenet"], "--preprocess is only for ONNX models, not for --to ir"),
        ("net.onnx", ["--preprocess", "0.5"], "neither imagenet nor MEAN/STD"),
        ("net.onnx", ["--preprocess", "a,b/c"], "neither imagenet nor MEAN/STD"),
        ("net.onnx", ["--preprocess", "0.5/0"], "A0911"),
        ("net.onnx", ["--preprocess", "124,116,104/58,57,57"], "0.486,0.455,0.408/0.227,0.224,0.224"),
        ("net.onnx", ["--labels", "car,horse,ship"], "there are 3 names, but the output `y` is f32[4]"),
        ("net.onnx", ["--labels", "car,,ship,horse"], "every class has a name"),
        ("net.onnx", ["--labels", "car,ship,car,horse"], "no two have the same"),
        ("net.onnx", ["--labels", "none.txt"], "cannot read none.txt"),
        ("net.py", ["--labels", "a,b,c,d"], "--labels is only for ONNX models, not for --to torch"),
        ("net.onnx", ["--for", "cuda", "--opset", "23"], "cuda lacks kernels of opset 23"),
    ],
)
def test_rejects_unsuitable_options(net: Path, output: str, options: list[str], text: str) -> None:
    result = CliRunner().invoke(main, ["compile", str(net), "-o", str(net.parent / output), *options])
    assert result.exit_code != 0
    assert text in result.output
    assert not (net.parent / output).exists()


def test_random_weights_are_reported(net: Path, tmp_path: Path) -> None:
    command = ["compile", str(net), "-o", str(tmp_path / "net.onnx"), "--force"]
    said = CliRunner().invoke(main, [*command, "--init-seed", "3"]).stdout
    assert "random weights, seed 3: --weights FILE sets trained ones" in said
    weights = net.with_suffix(".safetensors")
    graph = archir.load(net).graph
    TORCH.save(archir.compile(graph), weights)
    assert f"random weights, seed 0: {weights} is used only with --weights {weights}" in " ".join(
        CliRunner().invoke(main, command).stdout.split()
    )
    assert "random weights" not in CliRunner().invoke(main, [*command, "--weights", str(weights)]).stdout


def test_labels_are_stored_and_checked(net: Path, tmp_path: Path) -> None:
    model = compiled(net, "--labels", "car, horse,ship,Zürich")
    (stored,) = (entry.value for entry in model.metadata_props if entry.key == "labels")
    assert json.loads(stored) == ["car", "horse", "ship", "Zürich"]
    (tmp_path / "names.txt").write_text("a, b\nc\nd\ne\n")
    model = compiled(net, "--labels", str(tmp_path / "names.txt"))
    assert labels_in({entry.key: entry.value for entry in model.metadata_props}) == ("a, b", "c", "d", "e")
