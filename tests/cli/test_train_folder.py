"""The folder of `archir train`: a changed bit in any file is detected before use."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import archir
from archir.cli import train_folder as runs
from archir.diagnostics.errors import ArchError
from archir.runs import hashes
from archir_torch.training import checkpoint_folder as checkpoint
from tests.cli.test_cli import run

NET = "net net(classes = 10) {\n    input x: f32[1, 8, 8]\n    output y = x |> flatten |> linear(classes)\n}\n"
OF_THE_NETWORK = ("network.json", "architecture.json", "weights.safetensors", "training.json", "hashes.json")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    (folder / "net.arch").write_text(NET)
    run("train", str(folder / "net.arch"), "--epochs", "1", "-o", str(folder / "run"))
    return folder / "run"


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def flips(path: Path, count: int | None) -> Iterator[None]:
    """The file with one bit changed, so often; all bits in turn if no number is given."""
    whole = path.read_bytes()
    rng = random.Random(path.name)
    every = [(place, bit) for place in range(len(whole)) for bit in range(8)]
    for place, bit in every if count is None else rng.sample(every, count):
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        path.write_bytes(changed)
        yield
    path.write_bytes(whole)


def refused(call: Callable[[], Any], *codes: str) -> None:
    with pytest.raises(ArchError) as caught:
        call()
    assert {one.code for one in caught.value.diagnostics} <= {*codes}
    assert "changed" in str(caught.value) or "cannot be read" in str(caught.value)


def resumed(folder: Path) -> None:
    runs.begin(folder, archir.loads(NET).graph, "{}", resume=True)


def every_flip(folder: Path, count: int | None) -> None:
    for name in OF_THE_NETWORK:
        for _ in flips(folder / name, count):
            refused(lambda: runs.open_run(folder), "A1205")
            if name in ("network.json", "architecture.json", "hashes.json"):
                refused(lambda: resumed(folder), "A1205")
            else:
                refused(partial(hashes.require_unchanged_file, folder / name), "A1205")
    for path in folder.glob("checkpoint*"):
        for _ in flips(path, count):
            refused(lambda: checkpoint.read(folder), "A1105")
    runs.open_run(folder)
    assert checkpoint.read(folder) is not None


def test_flipped_bits_in_run_folder_are_detected(folder: Path) -> None:
    assert {one.name for one in folder.iterdir()} == {*OF_THE_NETWORK, "checkpoint.json", *(
        one.name for one in folder.glob("checkpoint-*.safetensors"))}  # fmt: skip
    every_flip(folder, 60)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_flipped_bit_in_run_folder_is_detected(folder: Path) -> None:
    every_flip(folder, None)


def test_export_and_resume_reject_corrupted_run_files(folder: Path, tmp_path: Path) -> None:
    net, out = str(folder.parent / "net.arch"), str(tmp_path / "net.onnx")
    Path(net).write_text(NET)
    for name in OF_THE_NETWORK:
        for _ in flips(folder / name, 2):
            assert "A1205" in run("export", str(folder), "-o", out, code=1).stderr
    for name in ("network.json", "architecture.json", "hashes.json"):
        for _ in flips(folder / name, 1):
            again = run("train", net, "--epochs", "1", "-o", str(folder), "--resume", code=1)
            assert "A1205" in again.stderr
    for _ in flips(folder / "weights.safetensors", 2):
        said = run("compile", net, "--to", "onnx", "-o", out, "--weights", str(folder / "weights.safetensors"), code=1)
        assert "A1205" in said.stderr
    for _ in flips(folder / "architecture.json", 2):
        assert "A1205" in run("cost", net, "--arch", str(folder / "architecture.json"), code=1).stderr
    assert not Path(out).exists()
    for path in folder.glob("checkpoint*"):
        (folder / "training.json").unlink(missing_ok=True)
        for _ in flips(path, 1):
            assert "A1105" in run("train", net, "--epochs", "1", "-o", str(folder), "--resume", code=1).stderr
    run("train", net, "--epochs", "1", "-o", str(folder), "--resume")
    run("export", str(folder), "-o", out)


@pytest.mark.parametrize(
    "options",
    ["--epochs 3", "--batch 7", "--data photos", "--weights nope.safetensors", "--device cuda:99"],
)
def test_rejected_resume_leaves_finished_run_unchanged(folder: Path, options: str) -> None:
    net = str(folder.parent / "net.arch")
    Path(net).write_text(NET)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    given = ["--epochs", "1", *options.split()] if "--epochs" not in options else options.split()
    said = run("train", net, *given, "-o", str(folder), "--resume", code=1)
    if options.startswith("--epochs"):
        assert "made with other settings: `epochs` was 1, and is 3" in said.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    runs.open_run(folder)


def test_rejects_foreign_or_missing_run_files(folder: Path, trained: Path) -> None:
    """A whole file that is not the one that was written; one that is missing; one that is none."""
    (folder / "network.json").write_bytes((folder / "network.json").read_bytes() + b" ")
    refused(lambda: runs.open_run(folder), "A1205")
    (folder / "network.json").unlink()
    with pytest.raises(ArchError, match="A1205"):
        runs.open_run(folder)
    shutil.copy(trained / "network.json", folder)
    (folder / "hashes.json").unlink()
    with pytest.raises(ArchError, match=r"A1205.*not finished"):
        runs.open_run(folder)
