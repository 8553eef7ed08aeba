"""Quantization rejects unsupported or damaged models and leaves existing files unchanged."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import archir
from archir.backends.samples import Samples
from archir.diagnostics.errors import ArchError, fail
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from tests.onnx_backend.int8.judged import changed, code_of
from tests.onnx_backend.int8.nets import NET


def test_rejects_models_that_cannot_be_quantized(trained: Path, tmp_path: Path, digits: Samples) -> None:
    output = tmp_path / "int8.onnx"

    def code(model: Path, **options: Any) -> str:
        return code_of(lambda: archir.quantize(model, output, **{"seconds": 0, **options}))

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
    archir.quantize(trained, tmp_path / "once.onnx", seconds=0)
    assert code(tmp_path / "once.onnx") == "A2802"
    whole = trained.read_bytes()
    with pytest.raises(ArchError, match=r"A0809.*it is the model that is read"):
        archir.quantize(trained, trained.parent / "." / trained.name, seconds=0)
    assert trained.read_bytes() == whole
    assert code(trained, keep=["*"]) == "A2802"
    assert code(trained, keep=["steam*"]) == "A2804"
    with pytest.raises(ArchError, match=r"hint: layers are called `"):
        archir.quantize(trained, tmp_path / "int8.onnx", keep=["qqq"], seconds=0)
    assert code(trained, data="images:nowhere") == "A1101"
    labels = np.repeat(np.arange(11), 4)
    np.savez(tmp_path / "eleven.npz", images=np.zeros((44, 8, 8), np.uint8), labels=labels)
    assert code(trained, data=str(tmp_path / "eleven.npz")) == "A1108"
    assert not output.exists()


@pytest.mark.parametrize("name", ["int8", "int8.txt"])
def test_rejects_an_output_that_is_not_named_onnx_before_it_reads_the_model(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A0809.*name it \.onnx"):
        archir.quantize(tmp_path / "none.onnx", tmp_path / name, seconds=0)


def test_rejects_image_input_with_five_channels(tmp_path: Path) -> None:
    graph = archir.loads(NET.replace("f32[1,", "f32[5,")).graph
    archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph).eval())
    assert code_of(lambda: archir.quantize(tmp_path / "net.onnx", tmp_path / "int8.onnx", seconds=0)) == "A1103"


@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_damaged_models_are_quantized_or_rejected(part: int, trained: Path, tmp_path: Path, digits: Samples) -> None:
    """Whatever bit is flipped, most of them outside of weights."""
    rng, whole = np.random.default_rng(part), trained.read_bytes()
    few = Samples({"image": digits.training["image"][:8]})
    codes = set()
    for _ in range(300 if part else 12):
        content = bytearray(whole)
        content[rng.integers(0, 3500 if rng.random() < 0.8 else len(content))] ^= 1 << int(rng.integers(0, 8))
        (tmp_path / "damaged.onnx").write_bytes(content)
        try:
            ONNX.quantize(tmp_path / "damaged.onnx", tmp_path / "int8.onnx", few, seconds=0)
        except ArchError as error:
            codes.add(error.diagnostics[0].code)
    assert {"A0915", "A0916"} <= codes <= {"A0914", "A0915", "A0916", "A2801", "A2802"}


def test_failed_quantization_keeps_existing_file(
    trained: Path, digits: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the model is written over itself."""
    path = tmp_path / "net.onnx"
    path.write_bytes(trained.read_bytes())

    def refused(*_: Any, **__: Any) -> None:
        raise fail("A0914", "it does not run")

    with monkeypatch.context() as patch:
        patch.setattr(
            sys.modules["archir_onnx.quantization.quantize"], "certify", refused
        )  # the package has its function
        assert code_of(lambda: ONNX.quantize(path, path, digits, seconds=0)) == "A0914"
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]
    assert path.read_bytes() == trained.read_bytes()
    made = ONNX.quantize(path, path, digits, seconds=0)
    assert {file.name for file in made.files} == {file.name for file in tmp_path.iterdir()}
    assert path.stat().st_size == made.bytes_after < made.bytes_before
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("isolated")
def test_quantize_leaves_no_temporary_files_or_log_handlers(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No files but three, no handler of logs, and nothing on the terminal."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = [*logging.root.handlers], logging.root.manager.disable
    made = archir.quantize(trained, tmp_path / "out" / "int8.onnx", seconds=0)
    assert ([*logging.root.handlers], logging.root.manager.disable) == before
    assert sorted((tmp_path / "out").iterdir()) == sorted(made.files)
    assert not [*(tmp_path / "temporary").iterdir()]
    assert capfd.readouterr() == ("", "")
