"""Normalisation and numbering of classes of photos, on which a model of another exporter is quantised."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import archir
from archir.backends.samples import Samples
from archir.data.metadata import labels_in
from archir.diagnostics.errors import ArchError
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from tests.cli.test_cli import run
from tests.photos import CLASSES, write_model, write_photos

SIZE = 8


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos") / "all", names=CLASSES, size=SIZE)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx", SIZE)


def quantized(model: Path, *options: object, code: int = 0) -> tuple[str, str]:
    """Output and errors of the command, each as one line."""
    output = model.with_name("int8.onnx")
    result = run("quantize", str(model), "-o", str(output), "--seconds", "0", *map(str, options), code=code)
    return " ".join(result.stdout.split()), " ".join(result.stderr.split())


def labelled(model: Path, labels: object) -> Path:
    proto = onnx.load(model)
    proto.metadata_props.add(key="labels", value=json.dumps(labels))
    onnx.save(proto, model)
    return model


def test_given_normalization_of_pixels_is_used(photos: Path, model: Path) -> None:
    with Image.open(photos / "car" / "000.png") as image:
        pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / 255
    for numbers, expected in [(((0.5,), (0.25,)), (pixels - 0.5) / 0.25), (((0, 0, 0), (1, 1, 1)), pixels)]:
        samples = TORCH.samples(str(photos), ONNX.interface(model), pixels=numbers, training=48)
        assert (np.abs(samples.training["input"] - expected).max((1, 2, 3)) < 1e-6).sum() == 1
        assert {*samples.scales["input"]["mean"]} == {numbers[0][0]}


def test_normalization_of_samples_is_printed(photos: Path, model: Path, tmp_path: Path) -> None:
    said, _ = quantized(model, "--data", photos, "--pixels", "0.5/0.25")
    assert "pixels normalised with mean 0.5, 0.5, 0.5 and deviation 0.25, 0.25, 0.25 (--pixels)" in said
    assert "classes: 0 car, 1 horse, 2 ship held-out accuracy 100.00%" in said
    said, _ = quantized(model, "--data", photos)
    assert "(those of the training images; --pixels sets the model's own)" in said
    made = archir.quantize(model, tmp_path / "int8.onnx", data=photos, pixels=((0.5,), (0.25,)), seconds=0)
    assert made.scales["input"] == {"mean": (0.5,) * 3, "std": (0.25,) * 3, "of": "pixels"}


def test_normalization_inside_the_model_is_printed_and_not_given_again(photos: Path, tmp_path: Path) -> None:
    text = "net raw {\n    input image: f32[3, 8, 8]\n    output y = image |> global_avg_pool |> linear(3)\n}\n"
    graph, path = archir.loads(text).graph, tmp_path / "raw.onnx"
    archir.export(graph, path, archir.compile(graph), pixels=((0.5,), (0.25,)))
    said, _ = quantized(path, "--data", photos, "--max-loss", 100)
    assert f"data: {photos}; `image` is normalised inside the model classes: 0 car" in said
    assert "the model normalises `image` itself" in quantized(path, "--data", photos, "--pixels", "0.5/0.25", code=1)[1]


def test_normalization_that_does_not_fit_is_refused(photos: Path, model: Path, tmp_path: Path) -> None:
    def error(data: object, mean: tuple[float, ...], path: Path = model) -> str:
        with pytest.raises(ArchError) as caught:
            archir.quantize(path, tmp_path / "int8.onnx", data=data, pixels=(mean, (0.25,) * len(mean)), seconds=0)
        return str(caught.value)

    assert "error[A0933]: the input `input` is f32[3, 8, 8], not an image of 2 channels" in error(photos, (0.5, 0.5))
    assert "error[A0911]" in error(photos, (127.5,))
    rng = np.random.default_rng(0)
    images = rng.standard_normal((40, 3, SIZE, SIZE)).astype(np.float32)
    assert "not pixels" in error((images, np.arange(40) % 3), (0.5,))
    graph = archir.loads("net rows {\n    input row: f32[4]\n    output y = row |> linear(3)\n}").graph
    archir.export(graph, tmp_path / "rows.onnx", archir.compile(graph))
    assert "A0933" in error((images[:, 0, 0, :4], np.arange(40) % 3), (0.5,), tmp_path / "rows.onnx")


def test_folders_are_matched_with_labels_by_name(photos: Path, model: Path, tmp_path: Path) -> None:
    labelled(model, ["car", "horse", "ship"])
    renamed = tmp_path / "renamed"
    renamed.mkdir()
    for folder, name in (("car", "truck"), ("horse", "animal"), ("ship", "ferry")):
        (renamed / name).symlink_to(photos / folder)
    said, _ = quantized(model, "--data", renamed, "--labels", "truck,animal,ferry")
    assert "classes: 0 truck, 1 animal, 2 ferry held-out accuracy 100.00%" in said
    metadata = ONNX.describe(model.with_name("int8.onnx"))["metadata"]
    assert labels_in(metadata) == ("truck", "animal", "ferry")
    _, errors = quantized(model, "--data", renamed, code=1)
    assert f"the classes of `{renamed}` are `animal`, `ferry` and `truck`" in errors
    assert "those of the model are `car`, `horse` and `ship`" in errors
    (renamed / "ferry").unlink()
    said, _ = quantized(model, "--data", renamed, "--labels", "truck,animal,ferry")  # some of the model's classes
    assert "held-out accuracy 100.00%" in said
    assert "error[A1117]" in quantized(labelled(write_model(model, SIZE), []), "--data", renamed, code=1)[1]
    assert "there are 2 names of classes" in quantized(model, "--data", renamed, "--labels", "a,b", code=1)[1]
    without_data = quantized(model, "--labels", "a,b", code=1)[1]
    assert "error[A0911]" in without_data
    assert "--data" not in without_data  # the labels are wrong, whatever the data are


def test_labels_of_another_length_are_ignored(photos: Path, model: Path) -> None:
    said, _ = quantized(labelled(model, ["a", "b"]), "--data", photos)
    assert "held-out accuracy 100.00%" in said


def test_accuracy_at_chance_names_normalization_and_order(photos: Path, model: Path) -> None:
    _, errors = quantized(model, "--data", photos, "--labels", "ship,car,horse", "--max-loss", 100)
    assert "warning: the float model is at chance: accuracy 0.00%, where guessing one of 3 classes gives" in errors
    assert "--pixels: it may have been trained with another normalisation; --labels: its classes may be" in errors
    assert "warning" not in quantized(model, "--data", photos, "--labels", "car,horse,ship")[1]


def test_left_out_data_are_named(model: Path, trained: Path, tmp_path: Path, digits: Samples) -> None:
    _, errors = quantized(model, code=1)
    assert "error[A1108]: there are 10 classes, but the output `scores` of `photos` has 3" in errors
    assert "--data was left out, so the bundled digits were used: name the data" in errors
    (tmp_path / "trained.onnx").write_bytes(trained.read_bytes())
    assert "data: the bundled digits, since --data was left out" in quantized(tmp_path / "trained.onnx")[0]


def test_share_of_one_sample_is_printed_if_it_exceeds_max_loss(photos: Path, model: Path) -> None:
    text = "one of 12 samples is 8.3 points, more than --max-loss"
    assert f"{text} 1:" in quantized(model, "--data", photos)[0]
    assert text not in quantized(model, "--data", photos, "--max-loss", 10)[0]
