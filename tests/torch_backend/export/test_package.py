"""Torch packages: numerical equality, certificates, and detection of changed packages before they are loaded."""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import archir
from archir.backends import certificates
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.utils.files import sha256
from archir_torch import BACKEND as TORCH
from archir_torch.export import package
from archir_torch.export.package import PackageFormat
from tests.conftest import EXAMPLES
from tests.torch_backend.export.test_emit_examples import NETS

SMALL = """
net small {
    input image: f32[1, 8, 8]
    x = image |> conv(4) |> batch_norm |> relu |> dropout(1/2)
    output logits = x |> global_avg_pool |> linear(3)
    output nonlocal = x
}
"""

RUN = """
block unit(x) { return x |> conv(2) |> relu }
net net {
    input image: f32[1, 8, 8]
    output y = image |> unit |> flatten |> linear(10)
}
"""


def written(path: Path, form: PackageFormat = "exported", **options: Any) -> package.Report:
    graph = archir.loads(SMALL, name="small").graph
    report: package.Report = TORCH.package(graph, path, TORCH.lower(graph), form, **options)
    return report


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    written(tmp_path / "small.pt2")
    return tmp_path / "small.pt2"


def test_exported_package_is_exact_and_carries_metadata(tmp_path: Path) -> None:
    for deployed in (True, False):
        path = tmp_path / f"{deployed}.pt2"
        report = written(path, metadata={"recipe": "none"}, deployed=deployed)
        assert report.relative <= 1e-6
        assert report.batches == (1, 2, 5)
        facts = {"archir.json": ""}
        program = torch.export.load(path, extra_files=facts)
        assert json.loads(facts["archir.json"]) == {"net": "small", "archir": archir.__version__, "recipe": "none"}
        norms = [node for node in program.graph.nodes if "batch_norm" in str(node.target)]
        assert bool(norms) != deployed
        found = program.module()(torch.zeros(7, 1, 8, 8))
        assert {name: tuple(one.shape) for name, one in found.items()} == {"logits": (7, 3), "nonlocal": (7, 4, 8, 8)}


@pytest.mark.soak
def test_aotinductor_package_is_exact(tmp_path: Path) -> None:
    """One network through the compiler, which takes its time; where there is none, that is what is said."""
    path = tmp_path / "small.pt2"
    assert written(path, "aot").relative <= 1e-4
    assert TORCH.verify(path, trust=sha256(path)).differences["torch CPU"] <= 1e-4
    assert sorted(one.name for one in tmp_path.iterdir()) == ["small.pt2", "small.pt2.json"]


def test_missing_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise RuntimeError("No working C++ compiler found\nwhere it was looked for")

    monkeypatch.setattr("torch._inductor.aoti_compile_and_package", missing)
    with pytest.raises(ArchError, match=r"(?s)A0907.*No working C\+\+ compiler found.*CXX") as caught:
        written(tmp_path / "small.pt2", "aot")
    assert "where it was looked for" not in str(caught.value)
    assert not [*tmp_path.iterdir()]


def test_a_module_stays_in_its_mode(tmp_path: Path) -> None:
    graph = archir.loads(SMALL, name="small").graph
    module = TORCH.lower(graph).train()
    TORCH.package(graph, tmp_path / "small.pt2", module, "exported", deployed=False)
    assert module.training


def test_unchanged_package_verifies(exported: Path) -> None:
    found = TORCH.verify(exported, trust=sha256(exported).upper())
    assert found.files == ("small.pt2",)
    assert found.differences["torch CPU"] <= 1e-5
    assert TORCH.verify(exported).differences == {}
    assert found.certificate["model"]["form"] == "exported"


def test_a_flipped_bit_is_noticed_before_anything_is_loaded(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: Any, **__: Any) -> None:
        raise AssertionError("it was loaded")

    monkeypatch.setattr(torch.export, "load", loaded)
    rng = random.Random(0)
    for path, codes in ((exported, {"A0918"}), (exported.with_name("small.pt2.json"), {"A0917"})):
        whole = path.read_bytes()
        for place in rng.sample(range(len(whole)), 100):
            changed = bytearray(whole)
            changed[place] ^= 1 << rng.randrange(7)
            path.write_bytes(changed)
            with pytest.raises(ArchError) as caught:
                TORCH.verify(exported)
            assert {one.code for one in caught.value.diagnostics} <= codes
        path.write_bytes(whole)


def test_package_with_different_outputs_is_detected(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = package.runner

    def wrong(*arguments: Any) -> Any:
        run = runner(*arguments)
        return lambda given: {name: array + 0.01 for name, array in run(given).items()}

    monkeypatch.setattr("archir_torch.export.certificate.runner", wrong)
    with pytest.raises(ArchError, match=r"A0913.*computes something else"):
        TORCH.verify(exported, trust=sha256(exported))
    monkeypatch.setattr("archir_torch.export.package.runner", wrong)
    with pytest.raises(ArchError, match=r"A0913.*differs from the network"):
        written(exported)


def resealed(path: Path, **changes: Any) -> None:
    """A certificate that fits its package, and says something else of the model: anybody can make one."""
    content = json.loads(certificates.certificate_path(path).read_text())
    content.pop("sha256")
    content["files"] = {path.name: certificates.file_facts(path)}
    content["model"] |= changes
    certificates.write(path, content)


@pytest.mark.parametrize(
    "changes",
    [
        {"form": "x"}, {"form": []}, {"inputs": None}, {"inputs": {}}, {"inputs": {"image": {"shape": "x"}}},
        {"inputs": {"image": {"shape": [1, 8, 10**8], "dtype": "f32"}}},
        {"inputs": {"image": {"shape": [1, 8, True], "dtype": "f32"}}},
        {"inputs": {"image": {"shape": [1, 8, 8], "dtype": "f8"}}},
    ],
)  # fmt: skip
def test_rejects_malformed_certificates(exported: Path, changes: dict[str, Any]) -> None:
    resealed(exported, **changes)
    with pytest.raises(ArchError, match="A0917"):
        TORCH.verify(exported)


@pytest.mark.parametrize(
    "changes",
    [
        {"form": "aot"},
        {"metadata": {"net": "other"}},
        {"inputs": {"image": {"shape": [1, 8, 9], "dtype": "f32"}}},
        {"inputs": {"image": {"shape": [1, 8, 8], "dtype": "f16"}}},
    ],
)
def test_rejects_certificate_of_other_package(exported: Path, changes: dict[str, Any]) -> None:
    resealed(exported, **changes)
    with pytest.raises(ArchError, match="A0919"):
        TORCH.verify(exported)


class Runs:
    """Unpickled, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def rezipped(path: Path, change: Callable[[dict[str, bytes]], Any], method: int = zipfile.ZIP_STORED) -> None:
    """A package with other parts, and a certificate that fits it."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    resealed(path)


def test_a_forged_package_runs_nothing(exported: Path) -> None:
    """Pickles where torch unpickles without asking, and where it would evaluate text, behind a seal that fits."""
    mark = exported.with_name("mark")
    evil = io.BytesIO()
    torch.save(Runs(mark), evil)
    expression = json.dumps(f"__import__('pathlib').Path({str(mark)!r}).touch()")

    def symbolic(parts: dict[str, bytes]) -> None:
        text = parts["small/models/model.json"].decode()
        found = re.sub(r'"expr_str": "[^"]*"', lambda _: f'"expr_str": {expression}', text)
        assert found != text
        parts["small/models/model.json"] = found.encode()

    def sample(parts: dict[str, bytes]) -> None:
        parts["small/data/sample_inputs/model.pt"] = evil.getvalue()

    def weight(parts: dict[str, bytes]) -> None:
        name = "small/data/weights/model_weights_config.json"
        parts[name] = parts[name].replace(b'"use_pickle": false', b'"use_pickle": true')
        parts["small/data/weights/weight_0"] = evil.getvalue()

    def constant(parts: dict[str, bytes]) -> None:
        entry = {"path_name": "constant_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
        parts["small/data/constants/model_constants_config.json"] = json.dumps({"config": {"c": entry}}).encode()
        parts["small/data/constants/constant_0"] = evil.getvalue()

    whole = exported.read_bytes()
    for forged in (symbolic, sample, weight, constant):
        exported.write_bytes(whole)
        rezipped(exported, forged)
        done = CliRunner().invoke(main, ["verify", str(exported)])
        assert "not loaded" in done.output or "A0919" in done.stderr
        assert not mark.exists()
        refused = CliRunner().invoke(main, ["verify", str(exported), "--trust", hashlib.sha256(whole).hexdigest()])
        assert refused.exit_code == 1
        assert not mark.exists()
    exported.write_bytes(whole)
    rezipped(exported, weight)
    assert "pickled" in CliRunner().invoke(main, ["verify", str(exported)]).stderr


def test_rejects_malformed_package(exported: Path) -> None:
    whole = exported.read_bytes()
    changes: list[Callable[[dict[str, bytes]], Any]] = [
        dict.clear,
        lambda parts: parts.update({"../out": b""}),
        lambda parts: parts.update({"small/../../out": b""}),
        lambda parts: parts.update({"other/part": b""}),
        lambda parts: parts.update({"small/a\\b": b""}),
        lambda parts: parts.update({"small/\x1b[2J": b""}),
        lambda parts: parts.update({"small/models/model.json": b"[" * 100_000}),
        lambda parts: parts.update({"small/models/model.json": b"{}"}),
        lambda parts: parts.update({"small/extra/archir.json": b"[]"}),
        lambda parts: parts.update({"small/data/weights/weight_0": b""}),
        lambda parts: parts.pop("small/extra/archir.json"),
    ]
    for change in changes:
        exported.write_bytes(whole)
        rezipped(exported, change)
        with pytest.raises(ArchError, match="A0919"):
            TORCH.verify(exported)
    exported.write_bytes(whole)
    rezipped(exported, lambda parts: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(ArchError, match=r"A0919.*is compressed"):
        TORCH.verify(exported)
    for data in (b"", b"PK\5\6" + b"\xff" * 18, whole[:-10], random.Random(0).randbytes(5000)):
        exported.write_bytes(data)
        resealed(exported)
        with pytest.raises(ArchError, match="A0919"):
            TORCH.verify(exported)


def test_failed_packaging_keeps_previous_package(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file.name: file.read_bytes() for file in exported.parent.iterdir()}
    runner = package.runner

    def wrong(*arguments: Any) -> Any:
        run = runner(*arguments)
        return lambda given: {name: array + 1 for name, array in run(given).items()}

    monkeypatch.setattr("archir_torch.export.package.runner", wrong)
    with pytest.raises(ArchError, match=r"A0913"):
        written(exported)
    assert {file.name: file.read_bytes() for file in exported.parent.iterdir()} == before


def test_a_module_stays_in_its_mode_where_torch_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("torch.export.export", refused)
    graph = archir.loads(SMALL, name="small").graph
    module = TORCH.lower(graph).train()
    with pytest.raises(ArchError, match=r"A0907"):
        TORCH.package(graph, tmp_path / "small.pt2", module, "exported", deployed=False)
    assert module.training


def test_full_disk_is_reported_and_keeps_previous_package(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("PytorchStreamWriter failed writing file data/0\nframe #0: nobody wants to read")

    before = exported.read_bytes()
    monkeypatch.setattr(torch.export, "save", full)
    with pytest.raises(ArchError, match=r"A0907.*torch cannot write small.pt2: PytorchStreamWriter") as caught:
        written(exported)
    assert "frame" not in str(caught.value)
    assert exported.read_bytes() == before


def test_compile_and_verify_commands_handle_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.arch").write_text(archir.format(SMALL))
    done = CliRunner().invoke(main, ["compile", "small.arch", "--to", "exported", "-o", "net.pt2"])
    assert "a graph of torch.export; largest difference to torch" in done.output
    done = CliRunner().invoke(main, ["verify", "net.pt2"])
    assert "net: small\n" in done.output
    assert "not loaded" in done.output
    done = CliRunner().invoke(main, ["verify", "net.pt2", "--trust", sha256(Path("net.pt2"))])
    assert "torch CPU: largest relative difference" in done.output
    assert "A0920" in CliRunner().invoke(main, ["verify", "net.pt2", "--trust", "0" * 64]).stderr
    assert CliRunner().invoke(main, ["verify", "net.pt2", "--trust", "0" * 63]).exit_code == 2
    assert CliRunner().invoke(main, ["verify", "net.onnx", "--trust", "0" * 64]).exit_code == 2
    assert CliRunner().invoke(main, ["verify", "net.pt2", "--on", "cuda"]).exit_code == 1
    assert CliRunner().invoke(main, ["compile", "small.arch", "--to", "exported", "-o", "net.zip"]).exit_code == 2
    assert CliRunner().invoke(main, ["compile", "small.arch", "--to", "exported"]).exit_code == 2
    assert CliRunner().invoke(main, ["export", ".", "--to", "python", "-o", "net.safetensors"]).exit_code == 2


def test_export_command_writes_python_block_and_package_of_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.arch").write_text(archir.format(RUN))
    for arguments in (["train", "net.arch", "--epochs", "1", "-o", "run"], ["export", "run", "-o", "net.py"]):
        assert CliRunner().invoke(main, arguments).exit_code == 0
    trained = TORCH.lower(archir.load("net.arch").graph)
    TORCH.load(trained, Path("run/weights.safetensors"))
    TORCH.load(trained, Path("net.safetensors"))
    done = CliRunner().invoke(main, ["export", "run", "-o", "unit.py", "--block", "unit", "--json"])
    assert json.loads(done.output) == {"form": "python", "files": ["unit.py", "unit.safetensors"]}
    done = CliRunner().invoke(main, ["export", "run", "-o", "net.pt2", "--json"])
    assert json.loads(done.output)["form"] == "exported"
    image = np.random.default_rng(1).standard_normal((3, 1, 8, 8)).astype(np.float32)
    found = package.runner(Path("net.pt2"), "exported", ["image"], ["y"])({"image": image})
    assert np.allclose(found["y"], TORCH.runner(trained)({"image": image})["y"], atol=1e-5)


@pytest.mark.soak
@pytest.mark.parametrize("net", [net for net in NETS if "local_net" not in net])
def test_every_example_can_be_exported(net: str, tmp_path: Path) -> None:
    space = archir.load(EXAMPLES / net, **NETS[net])
    graph = space.specialize(space.sample(0))
    assert TORCH.package(graph, tmp_path / "net.pt2", TORCH.lower(graph), "exported").relative <= 1e-4
