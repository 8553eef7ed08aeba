"""Certificates detect any changed byte, and external data is checked before it is read."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import external_data_helper

import archir
from archir.backends import certificates
from archir.backends.certificates import certificate_path
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.utils.files import protect_outputs
from archir_onnx import BACKEND as ONNX
from archir_onnx.files import external
from archir_onnx.files.models import save
from archir_onnx.lowering.model import build
from archir_onnx.verification.certificate import certify
from archir_torch import BACKEND as TORCH
from tests.soak import with_soak

NET = """
net small() {
    input x: f32[2, 5, 5]
    output logits = x |> conv(4, kernel=3) |> batch_norm |> relu |> global_avg_pool |> linear(3)
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with its certificate."""
    return certified(tmp_path / "net.onnx", apart=False)


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """A model whose weights are beside it, with its certificate."""
    (tmp_path / "apart").mkdir()
    return certified(tmp_path / "apart" / "net.onnx", apart=True)


def certified(path: Path, apart: bool) -> Path:
    space = archir.loads(NET)
    graph = space.specialize(space.sample(0))
    module = TORCH.lower(graph).eval()
    weights, reference = TORCH.arrays(module), TORCH.runner(module)
    report = ONNX.write(graph, path, weights, reference=reference, metadata={"recipe": "none"})
    if apart:
        save(build(graph, weights), path, max_bytes=1)
    certify(path, report, reference)
    return path


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ArchError) as caught:
        call()
    return caught.value.diagnostics[0].code


def test_failed_export_keeps_old_model_and_certificate(model: Path) -> None:
    space = archir.loads(NET)
    graph = space.specialize(space.sample(1))
    model.with_name(f"{model.name}.int8.json").write_text("{}")
    with pytest.raises(ArchError):
        archir.export(graph, model, TORCH.lower(graph), opset=99)
    ONNX.verify(model)
    with pytest.raises(ArchError, match="A0809"):  # the report in int8 is not archir's
        archir.export(graph, model, TORCH.lower(graph))
    ONNX.verify(model)
    with protect_outputs() as outputs:
        outputs.force = True
        archir.export(graph, model, TORCH.lower(graph))
    assert [file.name for file in model.parent.iterdir() if file.is_file()] == [model.name]


def test_unchanged_model_passes_verification(model: Path, apart: Path) -> None:
    for path in (model, apart):
        found = ONNX.verify(path)
        assert found.differences["CPUExecutionProvider"] <= 1e-5
        assert set(found.files) >= {path.name}
    assert "net.onnx.data" in ONNX.verify(apart).files


def flips(path: Path, count: int) -> list[tuple[int, int]]:
    rng = random.Random(0)
    size = path.stat().st_size
    places = range(size) if size <= count else sorted(rng.sample(range(size), count))
    return [(place, 1 << rng.randrange(8)) for place in places]


@pytest.mark.parametrize("count", with_soak([60, 400], [60]))
@pytest.mark.parametrize("name", ["net.onnx", "net.onnx.data", "net.onnx.json"])
def test_any_flipped_bit_is_detected(apart: Path, name: str, count: int) -> None:
    """A flipped bit anywhere in the model, its weights or its certificate; all bytes of small files."""
    path = apart.with_name(name)
    whole = path.read_bytes()
    for place, bit in flips(path, count):
        changed = bytearray(whole)
        changed[place] ^= bit
        path.write_bytes(changed)
        assert code_of(lambda: ONNX.verify(apart)) == ("A0917" if name.endswith(".json") else "A0918")
    path.write_bytes(whole)
    ONNX.verify(apart)


def test_missing_or_truncated_files_are_detected(apart: Path) -> None:
    data, certificate = apart.with_name("net.onnx.data"), certificate_path(apart)
    whole = data.read_bytes()
    data.write_bytes(whole[:-1])
    assert code_of(lambda: ONNX.verify(apart)) == "A0918"
    data.unlink()
    assert code_of(lambda: ONNX.verify(apart)) == "A0918"
    certificate.write_text("[]")
    assert code_of(lambda: ONNX.verify(apart)) == "A0917"
    certificate.unlink()
    assert code_of(lambda: ONNX.verify(apart)) == "A0917"


def test_rejects_certificate_of_another_file_name(model: Path) -> None:
    other = model.with_name("other.onnx")
    other.write_bytes(model.read_bytes())
    certificate_path(other).write_bytes(certificate_path(model).read_bytes())
    with pytest.raises(ArchError, match=r"A0917.*other.onnx.json is the certificate of net.onnx"):
        ONNX.verify(other)


def test_detects_model_with_other_outputs_than_certified(model: Path) -> None:
    """Even with a certificate that knows its files."""
    content = json.loads(certificate_path(model).read_text())
    content.pop("sha256")
    content["computed"]["outputs"]["logits"][0] += 0.5
    certificates.write(model, content)
    assert code_of(lambda: ONNX.verify(model)) == "A0913"


def test_detects_other_outputs_at_other_image_sizes(tmp_path: Path) -> None:
    graph, path = archir.loads(NET).graph, tmp_path / "net.onnx"
    archir.export(graph, path, archir.compile(graph), dynamic=("batch", "height", "width"), certified=True)
    assert ONNX.verify(path).differences["CPUExecutionProvider"] <= 1e-6
    computed = json.loads(certificate_path(path).read_text())["computed"]
    assert [record["sizes"] for record in computed["others"]] == [{"height": size, "width": size} for size in (1, 6)]
    shown = CliRunner().invoke(main, ["verify", str(path)]).stdout
    assert "also computed at 1 x 1 and 6 x 6" in shown
    assert "image sizes: height and width from 1 on" in shown
    computed["others"][1]["outputs"]["logits"][0] += 0.5
    sealed(path, computed=computed)
    assert code_of(lambda: ONNX.verify(path)) == "A0913"


def sealed(path: Path, **changes: Any) -> None:
    """A certificate with other parts, and the hash of those."""
    content = json.loads(certificate_path(path).read_text())
    content.pop("sha256")
    certificates.write(path, content | changes)


@pytest.mark.parametrize("numbers", [[float("nan")] * 3, [float("inf")] * 3, [1.0], []])
def test_rejects_invalid_numbers_in_certificate(model: Path, numbers: list[float]) -> None:
    sealed(model, computed={"tolerance": 1e-4, "sizes": {}, "outputs": {"logits": numbers}})
    assert code_of(lambda: ONNX.verify(model)) in ("A0917", "A0918")


@pytest.mark.parametrize(
    "changes",
    [
        {"files": None},
        {"files": {"../net.onnx": {}}},
        {"model": {}},
        {"computed": {}},
        {"files": {"net.onnx": {}, "..": {}}},
        {"files": {"net.onnx": {"sha256": 0, "bytes": 1}}},
        {"model": {"metadata": {"net": 1}}},
        *({"computed": {"tolerance": tolerance, "sizes": {}, "outputs": {"logits": []}}}
          for tolerance in ("1", None, True, -1, 1, float("inf"), float("nan"), 10**400)),
        {"computed": {"tolerance": 0.1, "sizes": {}, "outputs": {"logits": "abc"}}},
        {"computed": {"tolerance": 0.1, "sizes": {}, "outputs": {"logits": [True]}}},
        {"computed": {"tolerance": 0.1, "sizes": {}, "outputs": {"logits": [0.0] * 65}}},
        {"computed": {"tolerance": 0.1, "sizes": {"batch": -1}, "outputs": {}}},
        {"computed": {"tolerance": 0.1, "sizes": {"batch": 10**8}, "outputs": {}}},
        {"computed": {"tolerance": 0.1, "sizes": {"batch": 10**30}, "outputs": {}}},
        {"computed": {"tolerance": 0.1, "sizes": [], "outputs": {}}},
        {"computed": {"tolerance": 0.1, "outputs": {}}},
        *({"computed": {"tolerance": 0.1, "sizes": {}, "outputs": {}, "others": others}}
          for others in ({}, [{}], [None], [{"sizes": {}, "outputs": {"logits": [True]}}],
                         [{"sizes": {}, "outputs": {}}] * 3)),
        {"versions": None},
        {"versions": {"archir": 1}},
    ],
)  # fmt: skip
def test_rejects_malformed_certificate_with_valid_seal(model: Path, changes: dict[str, Any]) -> None:
    sealed(model, **changes)
    assert code_of(lambda: ONNX.verify(model)) == "A0917"


def test_an_output_that_is_certified_must_be_there(model: Path) -> None:
    outputs = json.loads(certificate_path(model).read_text())["computed"]["outputs"]
    sealed(model, computed={"tolerance": 0.1, "sizes": {}, "outputs": {**outputs, "more": [1.0]}})
    assert code_of(lambda: ONNX.verify(model)) == "A0918"


def hostile(path: Path, **entries: str | None) -> Path:
    """A copy of a model whose first external tensor has other entries."""
    proto = onnx.load(path, load_external_data=False)
    tensor = next(t for t in proto.graph.initializer if external_data_helper.uses_external_data(t))
    known = {entry.key: entry.value for entry in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, value in known.items():
        if value is not None:
            tensor.external_data.add(key=key, value=value)
    made = path.with_name("hostile.onnx")
    made.write_bytes(proto.SerializeToString())
    return made


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "../net.onnx.data"},
        {"location": "/etc/passwd"},
        {"location": "junk/../net.onnx.data"},
        {"location": "..\\net.onnx.data"},
        {"location": ".."},
        {"location": ""},
        {"location": None},
        {"location": "missing.data"},
        {"offset": "-8"},
        {"offset": "x"},
        {"offset": str(2**62)},
        {"length": str(2**62)},
        {"length": "1"},
        {"__class__": "x"},
        {"location": "net\0.data"},
        {"offset": " 0"},
        {"offset": "0_0"},
        {"offset": "\N{ARABIC-INDIC DIGIT ZERO}"},
    ],
    ids=str,
)
def test_rejects_external_data_at_forbidden_location(apart: Path, entries: dict[str, str | None]) -> None:
    assert code_of(lambda: external.load_model(hostile(apart, **entries))) == "A0916"


def test_rejects_ambiguous_external_data_entries(apart: Path) -> None:
    """An entry twice, and sizes whose product is right."""
    whole = onnx.load(apart, load_external_data=False)
    for change in (lambda tensor: tensor.external_data.add(key="location", value="net.onnx.data"),
                   lambda tensor: tensor.dims.__setitem__(slice(0, 2), [-dim for dim in tensor.dims[:2]])):  # fmt: skip
        proto = onnx.ModelProto()
        proto.CopyFrom(whole)
        change(next(tensor for tensor in proto.graph.initializer if len(tensor.dims) > 1))
        apart.write_bytes(proto.SerializeToString())
        assert code_of(lambda: external.load_model(apart)) == "A0916"


@pytest.mark.parametrize("attribute", ["value", "sparse_value"])
def test_rejects_external_data_inside_functions(attribute: str, model: Path) -> None:
    proto = onnx.load(model)
    function = proto.functions.add(name="hidden", domain="q", output=["y"])
    node = function.node.add(op_type="Constant", output=["y"])
    held = node.attribute.add(name=attribute)
    tensor = held.t if attribute == "value" else held.sparse_tensor.values
    tensor.CopyFrom(onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[1], data_location="EXTERNAL"))
    tensor.external_data.add(key="location", value="/etc/passwd")
    model.write_bytes(proto.SerializeToString())
    assert code_of(lambda: external.load_model(model)) == "A0916"


@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard", "symbolic"])
def test_links_are_refused(apart: Path, link: Callable[[Path, Path], None]) -> None:
    data = apart.with_name("net.onnx.data")
    data.rename(apart.with_name("kept"))
    link(apart.with_name("kept"), data)
    assert code_of(lambda: external.load_model(apart)) == "A0916"


@pytest.mark.parametrize("text", [b"relu_0", b"reviewed"])
def test_rejects_invalid_utf8_strings_in_model(text: bytes, tmp_path: Path) -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name="relu_0")
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", ends[:1], ends[1:]))
    onnx.helper.set_model_props(model, {"reviewed": "no"})
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    external.load_model(path)
    path.write_bytes(model.SerializeToString().replace(text, text[:-1] + b"\xee"))
    assert code_of(lambda: external.load_model(path)) == "A0916"
    assert "not UTF-8" in CliRunner().invoke(main, ["show", str(path)]).stderr


def test_rejects_missing_empty_or_random_model_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    assert code_of(lambda: external.load_model(path)) == "A0916"
    assert code_of(lambda: ONNX.verify(path)) == "A0916"
    path.write_bytes(b"")
    assert code_of(lambda: external.load_model(path)) == "A0916"
    path.write_bytes(np.random.default_rng(0).bytes(300))
    assert code_of(lambda: external.load_model(path)) == "A0916"


def test_verify_command_accepts_model_and_detects_change(model: Path) -> None:
    found = CliRunner().invoke(main, ["verify", str(model)])
    assert found.exit_code == 0, found.output
    assert "as certified" in found.output
    assert "recipe: none" in found.output
    assert json.loads(CliRunner().invoke(main, ["verify", str(model), "--json"]).output)["differences"]
    model.write_bytes(model.read_bytes() + b"\0")
    refused = CliRunner().invoke(main, ["verify", str(model)])
    assert refused.exit_code == 1
    assert "A0918" in refused.stderr


def test_show_command_prints_model_origin(model: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["show", str(model)]).output
    assert "inputs: x float[batch, 2, 5, 5]" in shown
    assert "net: small" in shown
    assert "recipe: none" in shown
    assert json.loads(CliRunner().invoke(main, ["show", str(model), "--json"]).output)["metadata"]["net"] == "small"
    (tmp_path / "other.onnx").write_bytes(b"no model")
    assert "A0916" in CliRunner().invoke(main, ["show", str(tmp_path / "other.onnx")]).stderr
