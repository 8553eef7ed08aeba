"""Models in int8: as accurate and a third of the size, the same numbers in fewer bytes, and a report that is true."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper, inliner, numpy_helper

import archir
from archir.backends.samples import Interface, Judge, Samples
from archir.base.errors import ArchError, fail
from archir.cli import main
from archir.ir.types import TensorType
from archir_onnx import BACKEND as ONNX
from archir_onnx.int8 import layers as lay
from archir_onnx.int8.arithmetic import Quantizer
from archir_onnx.int8.compact import compact
from archir_onnx.int8.feeding import Entrance, batches, outputs
from archir_onnx.int8.sensitivity import fewest, relative
from archir_onnx.running.sessions import session
from archir_torch import BACKEND as TORCH
from archir_torch.data import Split, load
from archir_torch.measuring.judge import Judge as Halved
from archir_torch.objectives.classification import Classification
from archir_torch.objectives.task import Task
from tests.onnx_backend.quantised import assert_quantises, noise
from tests.published.test_spaces import SPACES, space_of

NET = """
block unit(x, channels, stride = 1) {
    return x |> conv(channels, kernel=3, stride=stride) |> batch_norm |> relu
}
net digits() {
    input image: f32[1, 8, 8]
    x = image |> unit(24) |> unit(48, stride=2)
    x = x + (x |> unit(48))
    output logits = x |> max_pool(3) |> global_avg_pool |> linear(10)
}
"""
NINE = [name for name in SPACES if "level" not in name]
FEW = ["nas_bench_201", "autoformer"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolutional network that was trained on the digits."""
    graph = archir.loads(NET).graph
    module, result = archir.train(graph, settings={"epochs": 6})
    assert result.accuracy > 0.9
    path = tmp_path_factory.mktemp("trained") / "net.onnx"
    archir.export(graph, path, module, metadata={"architecture": '{\n  "choices": {}\n}', "recipe": "none"})
    return path


@pytest.fixture(scope="module")
def digits() -> Samples:
    interface = Interface("digits", {"image": TensorType((1, 8, 8))}, {"logits": TensorType((10,))})
    return TORCH.samples("digits", interface)


def accuracy(path: Path, known: Samples, judge: Judge | None = None) -> float:
    """The held-out accuracy of a model."""
    running, entrance, judge = session(path), Entrance.of(onnx.load(path)), judge or known.judge
    assert judge is not None
    return judge.measured(lambda arrays: outputs(running, entrance, arrays, known))["accuracy"]


def command(*arguments: Any) -> dict[str, Any]:
    """What `archir quantize ... --json` prints."""
    result = CliRunner().invoke(main, ["quantize", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ArchError) as caught:
        call()
    return caught.value.diagnostics[0].code


def fused(model: bytes, folder: Path) -> Counter[str]:
    """The operators that onnxruntime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "fused.onnx")
    onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "fused.onnx").graph.node)


def test_a_trained_network_loses_little_and_is_small(trained: Path, tmp_path: Path) -> None:
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


def test_the_accuracy_is_that_of_the_file(trained: Path, tmp_path: Path) -> None:
    made = archir.quantize(trained, tmp_path / "int8.onnx")
    images, labels = load_digits_held_out()
    for path, wanted in ((trained, made.before), (tmp_path / "int8.onnx", made.after)):
        right = ONNX.run(path, {"image": images})["logits"].argmax(1) == labels
        assert wanted["accuracy"] == pytest.approx(right.mean(), abs=1e-12)
    assert made.held_out == len(labels)
    said = json.loads(ONNX.look(tmp_path / "int8.onnx").certificate["model"]["metadata"]["int8"])
    assert said["held_out"]["accuracy"] == [made.before["accuracy"], made.after["accuracy"]]


def load_digits_held_out() -> tuple[NDArray[Any], NDArray[Any]]:
    held_out = load("digits", (1, 8, 8)).held_out
    return held_out.images.numpy(), held_out.labels.numpy()


def test_the_certificate_is_that_of_the_int8_model(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "int8.onnx"
    archir.quantize(trained, path)
    assert ONNX.look(path).differences["CPUExecutionProvider"] <= 1e-6
    whole = path.read_bytes()
    model = onnx.load_from_string(whole)
    weights = next(one for one in model.graph.initializer if one.data_type == onnx.TensorProto.INT8)
    place = whole.index(weights.raw_data)
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    assert code_of(lambda: ONNX.look(path)) == "A0918"


def test_the_table_shows_layers(trained: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["quantize", str(trained), "-o", str(tmp_path / "int8.onnx"), "--keep", "unit.*"])
    assert result.exit_code == 0, result.output
    assert "float: --keep" in result.stdout
    assert "3 of 4 layers" in result.stdout
    assert "held-out accuracy" in result.stdout


def text(model: bytes) -> int:
    """The bytes of a model that are not those of weights."""
    return len(model) - sum(len(one.raw_data) for one in onnx.load_from_string(model).graph.initializer)


@pytest.mark.parametrize("arithmetic", ["static", "dynamic"])
def test_fewer_bytes_compute_the_same(arithmetic: lay.Arithmetic, trained: Path, tmp_path: Path) -> None:
    """To the last bit; onnxruntime makes the same of it, and plain ONNX comes of it when functions are put back."""
    model = onnx.load(trained)
    images = noise("image", (1, 8, 8))
    entrance = Entrance.of(model)
    given = [dict(arrays) for arrays, _ in batches(entrance, images.training, images)]
    names = [one.name for one in lay.layers(model) if arithmetic == "static" or one.operator == "Gemm"]
    wanted = Quantizer(model, arithmetic, given, tmp_path).quantize(names)
    before = wanted.SerializeToString()
    found = compact(wanted)
    after = found.SerializeToString()
    assert text(after) < 0.5 * text(before)
    assert (len(found.functions) > 0) == (arithmetic == "static")
    for arrays in given:
        (one,), (other,) = (session(content).run(None, arrays) for content in (before, after))
        assert np.array_equal(one, other)
    assert fused(before, tmp_path) == fused(after, tmp_path)
    assert fused(after, tmp_path)["QLinearConv"] == (3 if arithmetic == "static" else 0)
    flat = inliner.inline_local_functions(found)
    assert not flat.functions
    assert np.array_equal(session(flat.SerializeToString()).run(None, given[-1])[0], other)


def test_layers_that_share_weights_compute_the_same(trained: Path, tmp_path: Path) -> None:
    """A bias that serves two layers is in the units of one of them."""
    model = onnx.load(trained)
    again = next(node for node in model.graph.node if node.name == "unit_3.conv/Conv")
    copy = onnx.NodeProto()
    copy.CopyFrom(again)
    copy.name, copy.input[0], copy.output[0] = "again", again.output[0], "again"
    for node in model.graph.node:
        node.input[:] = ["again" if name == again.output[0] else name for name in node.input]
    model.graph.node.insert([*model.graph.node].index(again) + 1, copy)
    images = noise("image", (1, 8, 8))
    given = [dict(arrays) for arrays, _ in batches(Entrance.of(model), images.training, images)]
    wanted = Quantizer(model, "static", given, tmp_path).quantize([one.name for one in lay.layers(model)])
    before = wanted.SerializeToString()
    after = compact(wanted).SerializeToString()
    (one,), (other,) = (session(content).run(None, given[0]) for content in (before, after))
    assert np.array_equal(one, other)
    (exact,) = session(model.SerializeToString()).run(None, given[0])
    assert relative(one, exact) < 0.1


def test_weights_have_seven_bits_so_that_no_cpu_saturates(trained: Path, tmp_path: Path) -> None:
    archir.quantize(trained, tmp_path / "int8.onnx")
    model = onnx.load(tmp_path / "int8.onnx")
    weights = [numpy_helper.to_array(one) for one in model.graph.initializer if one.data_type == onnx.TensorProto.INT8]
    largest = [int(np.abs(array.astype(int)).max()) for array in weights if array.ndim > 1]
    assert largest == [64] * 4
    assert 2 * 255 * max(largest) < 2**15


def spoiled(path: Path, output: Path, images: Samples, name: str) -> None:
    """A model that computes the same, with a layer whose weights int8 cannot hold: on a pixel that never changes
    they are so large that those on others are rounded to nothing."""
    model = onnx.load(path)
    tensors = {one.name: one for one in model.graph.initializer}
    layer = next(node for node in model.graph.node if node.name == name)
    weights, bias = (numpy_helper.to_array(tensors[one]).copy() for one in layer.input[1:])
    pixel = int(np.argmin(images.training["image"].reshape(len(images), -1).std(0)))
    value = float(images.training["image"][0].reshape(-1)[pixel])
    weights[:, pixel] += 3000
    bias -= 3000 * value
    for array, one in ((weights, layer.input[1]), (bias, layer.input[2])):
        tensors[one].CopyFrom(numpy_helper.from_array(array.astype(np.float32), one))
    onnx.save(model, output)


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of three linear maps that was trained on the digits."""
    text = """net flat() {
        input image: f32[1, 8, 8]
        output logits = image |> flatten |> linear(32) |> relu |> linear(32) |> relu |> linear(10)
    }"""
    graph = archir.loads(text).graph
    module, _ = archir.train(graph, settings={"epochs": 8, "augment": False, "lr": 1e-2})
    path = tmp_path_factory.mktemp("flat") / "net.onnx"
    archir.export(graph, path, module)
    return path


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_the_layer_that_int8_spoils_stays_in_float(mode: str, flat: Path, tmp_path: Path, digits: Samples) -> None:
    spoiled(flat, tmp_path / "net.onnx", digits, "linear/Gemm")
    facts = command(tmp_path / "net.onnx", "-o", tmp_path / "int8.onnx", "--mode", mode)
    assert {row["name"]: row["why"] for row in facts["layers"]} == {
        "linear/Gemm": "costs too much",
        "linear_2/Gemm": None,
        "linear_3/Gemm": None,
    }
    assert facts["loss"] <= 1
    assert facts["rounds"] == 1
    assert digits.judge is not None
    assert facts["chosen"] + facts["held_out"] == len(digits.judge)
    assert abs(facts["chosen"] - facts["held_out"]) <= 10
    for file, when in (("net.onnx", "before"), ("int8.onnx", "after")):
        assert facts[when]["accuracy"] == accuracy(tmp_path / file, digits, digits.judge.halves()[1])
    alone = {row["name"]: row["alone"] for row in facts["layers"]}
    assert alone["linear/Gemm"] > 5 * max(alone["linear_2/Gemm"], alone["linear_3/Gemm"])
    lost = ONNX.quantize(tmp_path / "net.onnx", tmp_path / "lost.onnx", digits, mode=mode, max_loss=100)
    assert lost.loss > 10


def test_what_cannot_be_had_is_an_error_and_nothing_is_written(flat: Path, tmp_path: Path, digits: Samples) -> None:
    spoiled(flat, tmp_path / "net.onnx", digits, "linear/Gemm")
    keep = ["linear_2*", "linear_3*"]
    output = tmp_path / "int8.onnx"
    assert code_of(lambda: archir.quantize(tmp_path / "net.onnx", output, mode="static", keep=keep)) == "A2803"
    assert not output.exists()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_halves_of_what_is_held_out(labels: list[int]) -> None:
    """They have every sample once, and of every class the same number, up to one."""
    split = Split({"x": torch.arange(len(labels)).float()}, {"label": torch.tensor(labels)})
    halves = Halved(Task(Classification(), ["y"], seed=0, device="cpu"), split, ["x"], labelled=True).halves()
    one, other = (half.split for half in halves)
    assert sorted([*one.images.tolist(), *other.images.tolist()]) == list(range(len(labels)))
    for kind in set(labels):
        assert abs(int((one.labels == kind).sum()) - int((other.labels == kind).sum())) <= 1


@pytest.mark.parametrize("needed", range(9))
def test_as_few_layers_as_can_be_go_back(needed: int) -> None:
    costs = {f"{number}": float(number) for number in range(8)}
    order = sorted(costs, reverse=True)
    asked: list[int] = []

    def loses(back: Any) -> bool:
        assert list(back) == order[: len(back)]
        asked.append(len(back))
        return len(back) < needed

    assert fewest(costs, loses) == (order[: max(needed, 1)] if needed < 8 else None)
    assert len(asked) <= 6


def test_raw_pixels_are_fed_to_a_model_that_takes_them(trained: Path, tmp_path: Path, digits: Samples) -> None:
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


def renamed(known: Samples, name: str) -> Judge:
    """The judge, for a model whose input has this name."""
    assert isinstance(known.judge, Halved)
    return replace(known.judge, names=[name])


def test_a_batch_that_is_fixed_is_filled_up(trained: Path, tmp_path: Path, digits: Samples) -> None:
    model = onnx.load(trained)
    for one in (*model.graph.input, *model.graph.output):
        one.type.tensor_type.shape.dim[0].dim_value = 7
    onnx.save(model, tmp_path / "seven.onnx")
    made = archir.quantize(tmp_path / "seven.onnx", tmp_path / "int8.onnx", calibration=10)
    assert made.before["accuracy"] == accuracy(trained, digits)


def test_nothing_is_left_behind(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No files but three, no handler of logs, and nothing on the terminal."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = [*logging.root.handlers], logging.root.manager.disable
    made = archir.quantize(trained, tmp_path / "out" / "int8.onnx")
    assert ([*logging.root.handlers], logging.root.manager.disable) == before
    assert sorted((tmp_path / "out").iterdir()) == sorted(made.files)
    assert not [*(tmp_path / "temporary").iterdir()]
    assert capfd.readouterr() == ("", "")


def changed(path: Path, output: Path, change: Callable[[onnx.ModelProto], Any]) -> Path:
    model = onnx.load(path)
    change(model)
    onnx.save(model, output)
    return output


def test_what_cannot_be_quantised_is_an_error(trained: Path, tmp_path: Path, digits: Samples) -> None:
    output = tmp_path / "int8.onnx"

    def code(model: Path, **options: Any) -> str:
        return code_of(lambda: archir.quantize(model, output, **options))

    (tmp_path / "text.onnx").write_text("no model")
    assert code(tmp_path / "text.onnx") == "A0916"
    assert code(tmp_path / "none.onnx") == "A0916"
    second = helper.make_tensor_value_info("second", onnx.TensorProto.FLOAT, ["batch", 1, 8, 8])
    assert code(changed(trained, tmp_path / "two.onnx", lambda model: model.graph.input.append(second))) == "A1103"
    loose = changed(
        trained, tmp_path / "loose.onnx",
        lambda model: setattr(model.graph.input[0].type.tensor_type.shape.dim[2], "dim_param", "height"),
    )  # fmt: skip
    assert code(loose) == "A2801"
    old = changed(trained, tmp_path / "old.onnx", lambda model: setattr(model.opset_import[0], "version", 12))
    assert code(old) == "A2801"
    archir.quantize(trained, tmp_path / "once.onnx")
    assert code(tmp_path / "once.onnx") == "A2802"
    whole = trained.read_bytes()
    with pytest.raises(ArchError, match=r"A0809.*it is the model that is read"):
        archir.quantize(trained, trained.parent / "." / trained.name)
    assert trained.read_bytes() == whole
    assert code(trained, keep=["*"]) == "A2802"
    assert code(trained, keep=["steam*"]) == "A2804"
    assert code(trained, data="images:nowhere") == "A1101"
    labels = np.repeat(np.arange(11), 4)
    np.savez(tmp_path / "eleven.npz", images=np.zeros((44, 8, 8), np.uint8), labels=labels)
    assert code(trained, data=str(tmp_path / "eleven.npz")) == "A1108"
    assert not output.exists()


def test_channels_that_no_image_has_are_an_error(tmp_path: Path) -> None:
    graph = archir.loads(NET.replace("f32[1,", "f32[5,")).graph
    archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph).eval())
    assert code_of(lambda: archir.quantize(tmp_path / "net.onnx", tmp_path / "int8.onnx")) == "A1103"


def test_nodes_without_names_are_layers(trained: Path, tmp_path: Path) -> None:
    def forget(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.name = ""

    facts = command(changed(trained, tmp_path / "net.onnx", forget), "-o", tmp_path / "int8.onnx")
    assert len({row["name"] for row in facts["layers"]}) == 4
    assert all(row["why"] is None for row in facts["layers"])


@pytest.mark.parametrize("name", FEW)
def test_a_random_architecture(name: str, tmp_path: Path) -> None:
    """One of a space of convolutions and of one of attention, untrained."""
    quantises(name, range(1), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", NINE)
def test_random_architectures(name: str, tmp_path: Path) -> None:
    """Twenty of each space."""
    quantises(name, range(20), tmp_path)


def quantises(name: str, seeds: range, folder: Path) -> None:
    space = space_of(name, **SPACES[name].small)
    for seed in seeds:
        assert_quantises(space.specialize(space.sample(seed)), folder)


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_damaged_models_are_quantised_or_refused(part: int, trained: Path, tmp_path: Path, digits: Samples) -> None:
    """Whatever bit is flipped, most of them outside of weights."""
    rng, whole = np.random.default_rng(part), trained.read_bytes()
    few = Samples({"image": digits.training["image"][:8]})
    codes = set()
    for _ in range(500 if part else 12):
        content = bytearray(whole)
        content[rng.integers(0, 3500 if rng.random() < 0.8 else len(content))] ^= 1 << int(rng.integers(0, 8))
        (tmp_path / "damaged.onnx").write_bytes(content)
        try:
            ONNX.quantize(tmp_path / "damaged.onnx", tmp_path / "int8.onnx", few)
        except ArchError as error:
            codes.add(error.diagnostics[0].code)
    assert {"A0915", "A0916"} <= codes <= {"A0914", "A0915", "A0916", "A2801", "A2802"}


def test_what_was_there_stays_until_a_new_one_holds(
    trained: Path, digits: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the model is written over itself."""
    path = tmp_path / "net.onnx"
    path.write_bytes(trained.read_bytes())

    def refused(*_: Any, **__: Any) -> None:
        raise fail("A0914", "it does not run")

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["archir_onnx.int8.quantize"], "certify", refused)  # the package has its function
        assert code_of(lambda: ONNX.quantize(path, path, digits)) == "A0914"
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]
    assert path.read_bytes() == trained.read_bytes()
    made = ONNX.quantize(path, path, digits)
    assert {file.name for file in made.files} == {file.name for file in tmp_path.iterdir()}
    assert path.stat().st_size == made.bytes_after < made.bytes_before
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_regression_is_judged_by_its_measures(tmp_path: Path) -> None:
    """On numbers as they come, too; without an objective, nothing is measured of what has no labels."""
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 2, (400, 6)).astype(np.float32)
    prices = (rows @ rng.normal(size=(6, 1)) + 0.1 * rows[:, :1] ** 2).astype(np.float32)
    np.savez(tmp_path / "prices.npz", x=rows, y=prices)
    net = """net price {
        input row: f32[6]
        output price = row |> linear(32) |> relu |> linear(32) |> relu |> linear(1)
    }"""
    graph, data = archir.loads(net).graph, str(tmp_path / "prices.npz")
    settings = {"epochs": 10, "lr": 1e-2, "objective": {"kind": "regression"}}
    module, result = archir.train(graph, data=data, settings=settings)
    for form in ({}, {"scales": result.images["scales"]}):
        archir.export(graph, tmp_path / "net.onnx", module, **form)
        objective = '{kind = "regression", criterion = "mae"}'
        facts = command(tmp_path / "net.onnx", "-o", tmp_path / "int8.onnx", "--data", data, "--objective", objective,
                        "--max-loss", "400", "--mode", "static")  # fmt: skip
        assert next(iter(facts["before"])) == facts["criterion"] == "mae"
        for name in ("mae", "mse", "r2", "loss"):
            wanted = result.measures["held_out_loss" if name == "loss" else name]
            assert facts["before"][name] == pytest.approx(wanted, rel=1e-3)
        lost = facts["after"]["mae"] / facts["before"]["mae"] - 1
        assert facts["loss"] == pytest.approx(100 * lost)
        assert lost < 4
    assert command(tmp_path / "net.onnx", "-o", tmp_path / "int8.onnx", "--data", data)["before"] == {}


def test_a_model_of_texts_is_judged_token_by_token(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"to be or not to be, that is the question. " * 100)
    net = """net words {
        input words: i64[16]
        output next = words |> embedding(256, 16) |> conv1d(32, kernel=3, padding=[2, 0]) |> relu |> linear(256)
    }"""
    graph, data = archir.loads(net).graph, str(tmp_path / "text.txt")
    module, result = archir.train(graph, data=data, settings={"epochs": 4, "objective": {"kind": "next_token"}})
    archir.export(graph, tmp_path / "net.onnx", module)
    said = CliRunner().invoke(main, [
        "quantize", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "int8.onnx"), "--data", data, "--objective",
        "next_token", "--max-loss", "50",
    ])  # fmt: skip
    assert said.exit_code == 0, said.output
    assert f"held-out perplexity {result.measures['perplexity']:.4g} -> " in said.stdout
    wrong = code_of(lambda: archir.quantize(
        tmp_path / "net.onnx", tmp_path / "x.onnx", data=data, objective={"kind": "multilabel"}
    ))  # fmt: skip
    assert wrong in ("A1903", "A1116")
