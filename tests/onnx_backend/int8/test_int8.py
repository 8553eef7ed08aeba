"""Int8 quantization keeps accuracy at a third of the size, and its report matches the written file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from onnx import helper, numpy_helper

import archir
from archir.backends.samples import Evaluator, Samples
from archir.cli import main
from archir_onnx import BACKEND as ONNX
from archir_torch.data import load
from archir_torch.measuring.evaluator import Evaluator as Halved
from tests.onnx_backend.int8.judged import accuracy, changed, code_of, command
from tests.onnx_backend.quantised import assert_quantises
from tests.published.test_spaces import SPACES, space_of

NINE = [name for name in SPACES if "level" not in name]
FEW = ["nas_bench_201", "autoformer"]


@pytest.mark.usefixtures("isolated")
def test_quantized_network_keeps_accuracy_and_is_small(trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "int8.onnx"
    facts = command(trained, "-o", output)
    assert facts["mode"] == "static"
    assert facts["loss"] <= 1
    assert facts["bytes_after"] == output.stat().st_size
    assert facts["bytes_before"] == trained.stat().st_size
    assert facts["ratio"] <= 0.3
    assert [row["why"] for row in facts["layers"]] == [None] * 4
    assert all(0 < row["error"] < 0.1 for row in facts["layers"])
    stored = json.loads((tmp_path / "int8.onnx.int8.json").read_text())
    assert stored["layers"] == facts["layers"]
    said = ONNX.describe(output)["metadata"]
    assert said == {
        "net": "digits",
        "architecture": '{"choices":{}}',
        "recipe": "none",
        "int8": json.dumps(
            {"mode": "static", "layers": 4, "in_float": 0}
            | {"held_out": {name: [value, facts["after"][name]] for name, value in facts["before"].items()}},
            separators=(",", ":"),
        ),
    }


def test_reported_accuracy_equals_accuracy_of_file(trained: Path, tmp_path: Path) -> None:
    made = archir.quantize(trained, tmp_path / "int8.onnx", seconds=0)
    images, labels = load_digits_held_out()
    for path, wanted in ((trained, made.before), (tmp_path / "int8.onnx", made.after)):
        right = ONNX.run(path, {"image": images})["logits"].argmax(1) == labels
        assert wanted["accuracy"] == pytest.approx(right.mean(), abs=1e-12)
    assert made.held_out == len(labels)
    said = json.loads(ONNX.verify(tmp_path / "int8.onnx").certificate["model"]["metadata"]["int8"])
    assert said["held_out"]["accuracy"] == [made.before["accuracy"], made.after["accuracy"]]


def load_digits_held_out() -> tuple[NDArray[Any], NDArray[Any]]:
    held_out = load("digits", (1, 8, 8)).held_out
    return held_out.images.numpy(), held_out.labels.numpy()


@pytest.mark.usefixtures("isolated")
def test_certificate_covers_int8_model(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "int8.onnx"
    archir.quantize(trained, path, seconds=0)
    assert ONNX.verify(path).differences["CPUExecutionProvider"] <= 1e-6
    whole = path.read_bytes()
    model = onnx.load_from_string(whole)
    weights = next(one for one in model.graph.initializer if one.data_type == onnx.TensorProto.INT8)
    place = whole.index(weights.raw_data)
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    assert code_of(lambda: ONNX.verify(path)) == "A0918"


def test_quantize_command_prints_layer_table(trained: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["quantize", str(trained), "-o", str(tmp_path / "int8.onnx"), "--keep", "unit.*"])
    assert result.exit_code == 0, result.output
    assert "float: --keep" in result.stdout
    assert "3 of 4 layers" in result.stdout
    assert "held-out accuracy" in result.stdout


def test_model_with_uint8_pixel_input_is_quantized(trained: Path, tmp_path: Path, digits: Samples) -> None:
    """uint8 [batch, H, W, C], made float and normalised inside: as accurate, to within rounded pixels."""
    model = onnx.load(trained)
    graph = model.graph
    before = [
        helper.make_node("Cast", ["pixels"], ["cast"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Transpose", ["cast"], ["maps"], perm=[0, 3, 1, 2]),
        helper.make_node("Div", ["maps", "scale"], ["scaled"]),
        helper.make_node("Sub", ["scaled", "shift"], ["image"]),
    ]
    known = digits.scales["image"]
    scale = (255 * np.float32(known["std"])).reshape(1, 1, 1)
    shift = np.float32(known["mean"]).reshape(1, 1, 1) / np.float32(known["std"]).reshape(1, 1, 1)
    graph.initializer.extend([numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(shift, "shift")])
    nodes = [*before, *graph.node]
    del graph.node[:], graph.input[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info("pixels", onnx.TensorProto.UINT8, ["batch", 8, 8, 1]))
    onnx.save(model, tmp_path / "raw.onnx")
    pixels = replace(digits, scales={"pixels": known})
    plain, raw = accuracy(trained, digits), accuracy(tmp_path / "raw.onnx", pixels, renamed(pixels, "pixels"))
    assert abs(plain - raw) < 0.006
    facts = command(tmp_path / "raw.onnx", "-o", tmp_path / "int8.onnx")
    assert facts["loss"] <= 1
    assert ONNX.describe(tmp_path / "int8.onnx")["inputs"] == ["pixels uint8[batch, 8, 8, 1]"]


def renamed(known: Samples, name: str) -> Evaluator:
    """The judge, for a model whose input has this name."""
    assert isinstance(known.evaluator, Halved)
    return replace(known.evaluator, names=[name])


def test_fixed_batch_model_is_quantized_with_padded_batches(trained: Path, tmp_path: Path, digits: Samples) -> None:
    model = onnx.load(trained)
    for one in (*model.graph.input, *model.graph.output):
        one.type.tensor_type.shape.dim[0].dim_value = 7
    onnx.save(model, tmp_path / "seven.onnx")
    made = archir.quantize(tmp_path / "seven.onnx", tmp_path / "int8.onnx", calibration=10, seconds=0)
    assert made.before["accuracy"] == accuracy(trained, digits)


def test_unnamed_nodes_are_quantized_as_layers(trained: Path, tmp_path: Path) -> None:
    def forget(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.name = ""

    facts = command(changed(trained, tmp_path / "net.onnx", forget), "-o", tmp_path / "int8.onnx")
    assert len({row["name"] for row in facts["layers"]}) == 4
    assert all(row["why"] is None for row in facts["layers"])


@pytest.mark.parametrize("name", FEW)
def test_random_architecture_can_be_quantized(name: str, tmp_path: Path) -> None:
    """One of a space of convolutions and of one of attention, untrained."""
    quantises(name, range(1), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", NINE)
def test_20_random_architectures_can_be_quantized(name: str, tmp_path: Path) -> None:
    """Twenty of each space."""
    quantises(name, range(20), tmp_path)


def quantises(name: str, seeds: range, folder: Path) -> None:
    space = space_of(name, **SPACES[name].small)
    for seed in seeds:
        assert_quantises(space.specialize(space.sample(seed)), folder)
