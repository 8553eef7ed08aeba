"""Everything the README shows is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from archir.build.elaborate import elaborate
from archir.errors import ArchError
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
PYTHONPATH = ":".join(str(ROOT / name) for name in ("", "backends", "grammar"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.arch").write_text(blocks("arch")[0])
    return tmp_path


def test_the_commands(folder: Path) -> None:
    command = None
    shown: list[str] = []
    lines = [*blocks("console")[0].splitlines(), "$ "]
    for line in lines:
        if not line.startswith("$ "):
            shown.append(line)
            continue
        if command is not None:
            done = subprocess.run(
                [sys.executable, "-m", "archir", *command.split()[1:]],
                cwd=folder,
                env={"PYTHONPATH": PYTHONPATH},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            if shown:
                assert done.stdout.splitlines() == shown
        command, shown = line[2:], []
    assert (folder / "net.onnx").exists()


def test_the_python(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[0]],
        cwd=folder,
        env={"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "117"


def test_the_message() -> None:
    text = blocks("arch")[0].replace("skip:  identity", "wide:  conv(2 * width) |> batch_norm |> relu")
    text = text.replace("x = x |> layer(width)", "x = x + (x |> layer(width))").replace("[3, 32, 32]", "[3, 16, 16]")
    with pytest.raises(ArchError) as caught:
        elaborate(text, "tiny.arch")
    assert "shapes differ: f32[32, 16, 16] and f32[16, 16, 16]" in str(caught.value).replace(
        "f32[16, 16, 16] and f32[32, 16, 16]", "f32[32, 16, 16] and f32[16, 16, 16]"
    )


def test_the_figures() -> None:
    for figure in ("25,557,032", "4,089,184,256", "5,717,416", "1,253,683,200", "3,504,872", "300,774,272"):
        assert figure in README
        assert figure.replace(",", "_") in (ROOT / "tests" / "test_plain_nets.py").read_text()
