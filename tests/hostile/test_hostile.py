"""Hostile files are rejected with a diagnostic, quickly, with little memory, and without running code."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from archir.cli import main
from tests.conftest import ROOT
from tests.hostile import inputs, models  # noqa: F401  (they fill the table)
from tests.hostile.making import Place, loop, model
from tests.hostile.table import TABLE, Artefact

MOST_SECONDS = 2.0
MOST_BYTES = 1 << 30
NOISE = 3.0
"""How much longer anything may take on a machine that does other things, too."""

every = pytest.mark.parametrize("one", TABLE, ids=lambda one: one.name)


def test_at_least_sixty_hostile_files_are_tested() -> None:
    assert len({one.name for one in TABLE}) == len(TABLE) >= 60


def told(one: Artefact, text: str) -> None:
    assert any(f"[{code}]" in text for code in one.codes.split()), text
    assert "Traceback" not in text
    assert "This is a bug" not in text


@every
@pytest.mark.timeout(120)
def test_hostile_files_are_rejected_quickly(one: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    monkeypatch.chdir(tmp_path)
    arguments = one.make(place)
    begun = time.process_time()
    done = CliRunner().invoke(main, arguments)
    spent = time.process_time() - begun
    told(one, done.output)
    assert done.exit_code == 1
    assert spent < NOISE * MOST_SECONDS
    assert not place.mark.exists()
    assert not list(tmp_path.glob("made.*"))


def test_endless_measurement_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`archir bench` measures what it is given, loops too, but not forever."""
    place = Place(tmp_path)
    nodes, weights = loop(2**62)
    model(place / "net.onnx", nodes, initializers=weights)
    monkeypatch.setattr("archir.backends.speed.turns.ANSWER_TIMEOUT", 2.0)
    said = CliRunner().invoke(main, ["bench", str(place / "net.onnx"), "--on", "onnxruntime-cpu", "--seconds", "0.1"])
    assert said.exit_code == 1
    assert "A1508" in said.output
    assert "did not answer for 2 seconds" in said.output


def spent_by(arguments: list[str], folder: Path) -> tuple[float, int, str]:
    """Seconds of the processor, exit status and output of a command that may take `MOST_BYTES`."""

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

    paths = ":".join(str(path) for path in (ROOT, ROOT / "backends", ROOT / "grammar"))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "archir", *arguments], cwd=folder, env=environment, preexec_fn=limits, timeout=120,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent, done.returncode, done.stdout


@pytest.fixture(scope="session")
def imports(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What a command takes that imports both backends, and does nothing."""
    path = tmp_path_factory.mktemp("imports")
    return max(spent_by(["export", str(path), "--to", form, "-o", "x"], path)[0] for form in ("python", "onnx"))


@every
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_hostile_files_are_rejected_within_time_and_memory(one: Artefact, imports: float, tmp_path: Path) -> None:
    place = Place(tmp_path)
    spent, status, said = spent_by(one.make(place), tmp_path)
    told(one, said)
    assert status == 1
    assert spent < 2 * imports + NOISE * MOST_SECONDS  # models are run by a process that imports them, too
    assert not place.mark.exists()
    assert not list(tmp_path.glob("made.*"))
