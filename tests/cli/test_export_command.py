"""`archir export`: forms of exported networks, their comparison, and error messages."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import archir
from archir import backends
from archir.cli.train_folder import open_run
from archir.data.metadata import resizing_in
from archir.data.resizing import Resizing
from archir.equivalence.canonical import canonical_hash
from archir.runs import hashes
from archir_torch.data import load
from tests.cli.test_cli import run

ONNX = backends.get("onnx")
NET = """
net tiny(classes = 10) {
    input image: f32[1, 8, 8]
    x = image |> conv(8, kernel=3) |> batch_norm |> relu
    output logits = x |> global_avg_pool |> linear(classes)
}
"""
RECIPE = """
space = "tiny.arch"

[data]
source = "digits"

[[phase]]
name = "train"
strategy = "train"
training = { epochs = 1 }
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.arch").write_text(NET)
    run("train", str(folder / "tiny.arch"), "--epochs", "1", "-o", str(folder / "run"))
    return folder / "run"


def exported(trained: Path, path: Path, *options: str) -> tuple[dict[str, object], onnx.ModelProto]:
    report = json.loads(run("export", str(trained), "-o", str(path), "--json", *options).output)
    assert "as certified" in run("verify", str(path)).output
    return report, onnx.load(path)


def shape(value: onnx.ValueInfoProto) -> list[object]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_default_export_verifies_on_real_images_and_stores_labels(trained: Path, tmp_path: Path) -> None:
    report, model = exported(trained, tmp_path / "net.onnx")
    assert (report["real"], report["batches"]) == (16, [1, 3])
    assert shape(model.graph.input[0]) == ["batch", 1, 8, 8]
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(metadata["labels"]) == [str(digit) for digit in range(10)]
    assert "license" not in metadata
    certificate = json.loads((tmp_path / "net.onnx.json").read_text())
    assert certificate["verified"]["real"] == 16


def test_preprocess_export_accepts_raw_uint8_images(trained: Path, tmp_path: Path) -> None:
    _, model = exported(trained, tmp_path / "net.onnx", "--preprocess", "--license", "CC0-1.0")
    assert shape(model.graph.input[0]) == ["batch", 8, 8, 1]
    assert {entry.key: entry.value for entry in model.metadata_props}["license"] == "CC0-1.0"
    images = json.loads((trained / "training.json").read_text())["images"]
    pixels = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1)
    normal = ((pixels / 255 - images["mean"][0]) / images["std"][0]).astype(np.float32).transpose(0, 3, 1, 2)
    exported(trained, tmp_path / "plain.onnx")
    wanted = ONNX.run(tmp_path / "plain.onnx", {"image": normal})["logits"]
    assert np.abs(ONNX.run(tmp_path / "net.onnx", {"image": pixels})["logits"] - wanted).max() < 1e-5


def test_export_options_set_axes_opset_and_precision(trained: Path, tmp_path: Path) -> None:
    report, model = exported(trained, tmp_path / "open.onnx", "--dynamic", "batch,height,width")
    assert shape(model.graph.input[0]) == ["batch", 1, "height", "width"]
    assert report["sizes"] == [[16, 16], [12, 12], [4, 4], [1, 1], [9, 9]]
    assert report["note"] == "accepts height and width from 1 on"
    report, model = exported(trained, tmp_path / "fixed.onnx", "--batch", "4", "--opset", "17")
    assert (shape(model.graph.input[0])[0], model.opset_import[0].version) == (4, 17)
    assert report["batches"] == [4]
    report, model = exported(trained, tmp_path / "half.onnx", "--fp16", "--dynamic", "none")
    assert shape(model.graph.input[0])[0] == 1
    assert {tensor.data_type for tensor in model.graph.initializer if "weight" in tensor.name} == {10}
    assert 1e-6 < float(str(report["relative"])) < 1e-2


def test_bfloat16_export_names_missing_cpu_kernels_or_verifies(trained: Path, tmp_path: Path) -> None:
    text = run("export", str(trained), "-o", str(tmp_path / "net.onnx"), "--bf16").output
    assert "CPU has no kernels for bfloat16 models" in text or "largest difference to torch" in text


def test_network_of_search_run_is_exported(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.arch").write_text(NET)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    run("search", str(tmp_path / "recipe.toml"), "-o", str(tmp_path / "run"))
    report, model = exported(tmp_path / "run", tmp_path / "net.onnx", "--preprocess")
    assert shape(model.graph.input[0]) == ["batch", 8, 8, 1]
    assert report["real"] == 16
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["recipe"] == "recipe"
    assert len(json.loads(metadata["labels"])) == 10


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--dynamic", "depth"], "A0911.*no axis `depth`"),
        (["--dynamic", "batch,"], "A0911.*no axis ``"),
        (["--opset", "0"], "A0911.*opset 0 is not supported"),
        (["--opset", "16"], "A0911.*opset 16 is not supported; 17 to 26 are"),
        (["--opset", "22", "--attention", "standard"], "A0911.*opset 22 has no attention"),
        (["--on", "tensorrt"], "A0914.*onnxruntime has no TensorrtExecutionProvider here"),
    ],
)
def test_failed_export_leaves_existing_files_unchanged(
    options: list[str], text: str, trained: Path, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"a model")
    path.with_name("net.onnx.json").write_text("its certificate")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert re.search(text, run("export", str(trained), "-o", str(path), "--force", *options, code=1).stderr)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("output", "options", "text"),
    [
        ("net.py", ["--fp16"], "--fp16 is only for ONNX models, not for --to python"),
        ("net.pt2", ["--no-verify"], "--no-verify is only for ONNX models, not for --to exported"),
        ("net.py", ["--on", "cpu"], "--on is only for ONNX models"),
        ("net.py", ["--as-trained"], "--as-trained has no effect with --to python"),
        ("net.onnx", ["--batch", "2", "--dynamic", "batch"], "--batch 2 fixes the batch, --dynamic batch leaves it"),
        ("net.onnx", ["--fp16", "--bf16"], "--fp16 and --bf16 exclude each other"),
        ("net.onnx", ["--block", "unit"], "--block is for --to python"),
    ],
)
def test_rejects_conflicting_export_options(
    output: str, options: list[str], text: str, trained: Path, tmp_path: Path
) -> None:
    assert text in run("export", str(trained), "-o", str(tmp_path / output), *options, code=2).stderr
    assert not list(tmp_path.iterdir())


def test_program_file_is_rejected_with_compile_hint(trained: Path, tmp_path: Path) -> None:
    net = trained.parent / "tiny.arch"
    text = run("export", str(net), "-o", str(tmp_path / "net.onnx"), code=2).stderr
    assert f"archir compile {net} --to onnx" in text


def test_weights_file_is_rejected_with_compile_command(trained: Path, tmp_path: Path) -> None:
    run("export", str(trained), "-o", str(tmp_path / "net.arch"))
    net, weights, model = (str(tmp_path / name) for name in ("net.arch", "net.safetensors", "x.onnx"))
    said = run("export", weights, "-o", model, code=2).stderr
    command = f"archir compile {net} --to onnx --weights {weights} -o {model}"
    assert said.endswith(f"; to export a net: {command}\n")
    assert "largest difference to torch" in run(*command.split()[1:]).output
    (tmp_path / "net.arch").unlink()
    assert (
        f"archir compile NET.arch --to onnx --weights {weights}" in run("export", weights, "-o", model, code=2).stderr
    )


def test_run_without_image_record_exports_only_without_preprocess(trained: Path, tmp_path: Path) -> None:
    """One that an older archir left can be exported, but for what its images are needed for."""
    for file in trained.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    record = json.loads((tmp_path / "training.json").read_text())
    del record["images"]
    (tmp_path / "training.json").write_text(json.dumps(record))
    hashes.write(tmp_path, list(hashes.read(tmp_path)))
    assert json.loads(run("export", str(tmp_path), "-o", str(tmp_path / "a.onnx"), "--json").output)["real"] == 0
    text = run("export", str(tmp_path), "-o", str(tmp_path / "b.onnx"), "--preprocess", code=1).stderr
    assert "does not record how its images were normalised" in text
    assert not (tmp_path / "b.onnx").exists()


def test_exported_program_and_weights_equal_the_run(trained: Path, tmp_path: Path) -> None:
    assert "net.arch and" in run("export", str(trained), "-o", str(tmp_path / "net.arch")).output
    before, after = open_run(trained).graph, archir.load(tmp_path / "net.arch").graph
    assert canonical_hash(before) == canonical_hash(after)
    torch = backends.get("torch")
    one, other = archir.compile(before), archir.compile(after)
    torch.load(one, trained / "weights.safetensors")
    torch.load(other, tmp_path / "net.safetensors")
    x = {"image": np.random.default_rng(0).normal(size=(2, 1, 8, 8)).astype(np.float32)}
    found = [torch.runner(module.eval())(x)["logits"] for module in (one, other)]
    np.testing.assert_array_equal(*found)
    for options in (["--opset", "20"], ["--as-trained"], ["--block", "tiny"]):
        said = run("export", str(trained), "-o", str(tmp_path / "net.arch"), *options, code=2).stderr
        assert options[0] in said
        assert "--to program" in said
    wrong = run("export", str(trained), "-o", str(tmp_path / "net.onnx"), "--to", "program", code=2).stderr
    assert "the name of a program ends in .arch" in wrong


@pytest.mark.parametrize(
    ("output", "options", "text"),
    [
        ("net.pt", [], ".pt does not say what is to be written into"),
        ("net.pth", [], ": name it .onnx (onnx), .py (python), .pt2 (exported), .arch (program), or give --to"),
        ("net.onx", [], "did you mean `.onnx`?"),
        ("net", [], "has no suffix to say what is to be written: name it .onnx (onnx), "),
        ("net.safetensors", [], "is the name of a file of weights, which are written beside a network: name it .onnx"),
        ("net.safetensors", ["--to", "onnx"], "is the name of a file of weights; that of this one ends in .onnx"),
        ("net.pth", ["--to", "python"], "is the name of a file that torch.save writes; that of this one ends in .py"),
        ("net.arch", ["--to", "onnx"], "is the name of another kind of file, program; that of this one ends in .onnx"),
    ],
)
def test_export_rejects_ambiguous_or_wrong_output_suffix(
    output: str, options: list[str], text: str, trained: Path, tmp_path: Path
) -> None:
    said = run("export", str(trained), "-o", str(tmp_path / output), *options, code=2).stderr
    assert text in said
    assert not list(tmp_path.iterdir())


def test_explicit_format_allows_any_suffix(trained: Path, tmp_path: Path) -> None:
    exported(trained, tmp_path / "net.v1", "--to", "onnx", "--no-verify")


@pytest.mark.parametrize("name", ["x.tflite", "x.py", "x.pt2", "x", "x.arch"])
def test_python_export_rejects_suffix_other_than_onnx(name: str, tmp_path: Path) -> None:
    graph = archir.loads("net n {\n    input x: f32[4]\n    output y = x |> linear(2)\n}\n").graph
    with pytest.raises(archir.ArchError, match=r"A0809.*what is to be written(.*): name it \.onnx \(onnx\)"):
        archir.export(graph, tmp_path / name, archir.compile(graph))
    assert not [*tmp_path.iterdir()]


def test_a_model_says_how_images_were_resized_and_quantising_resizes_them_alike(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for label, name in itertools.product("ab", range(5)):
        (tmp_path / "photos" / label).mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (16, 32), "uint8")
        Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{name}.png")
    (tmp_path / "tiny.arch").write_text(NET)
    source = f'"images:{tmp_path / "photos"}"\ncenter_crop = 0.5\ninterpolation = "bicubic"'
    (tmp_path / "cropped.toml").write_text(RECIPE.replace('"digits"', source))
    run("search", str(tmp_path / "cropped.toml"), "-o", str(tmp_path / "run"), "--set", "parameters.classes=2")
    _, model = exported(tmp_path / "run", tmp_path / "net.onnx")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(metadata["resizing"]) == {"center_crop": 0.5, "interpolation": "bicubic"}
    interface = ONNX.interface(tmp_path / "net.onnx")
    samples = backends.get("torch").samples(f"images:{tmp_path / 'photos'}", interface, training=1, judged=False)
    data = load(f"images:{tmp_path / 'photos'}", (1, 8, 8), resizing=Resizing(0.5, "bicubic"))
    np.testing.assert_array_equal(samples.held_out["image"], data.held_out.images.numpy())


@pytest.mark.parametrize(
    "text", ["[", "3", '{"center_crop": "all"}', '{"center_crop": 7}', '{"interpolation": "area"}']
)
def test_invalid_resizing_in_the_metadata_of_a_model_is_ignored(text: str) -> None:
    assert resizing_in({"resizing": text}) == asdict(Resizing())
