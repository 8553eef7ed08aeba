"""However a program ends, none of its workers is left, nor anything of a cluster of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.search.marked import gone, left

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")

RAY_FOR_LONG = ["processes:2", pytest.param("ray", marks=pytest.mark.soak)]
PATHS = os.pathsep.join(str(path) for path in (ROOT, ROOT / "backends", ROOT / "grammar"))


class Program:
    """A program in a process group of its own; all of its processes carry a mark in their environment."""

    def __init__(self, name: str, folder: Path, seconds: float) -> None:
        self.mark = f"ARCHIR_TEST={uuid.uuid4().hex}"
        environment = os.environ | {"PYTHONPATH": PATHS} | dict([self.mark.split("=")])
        command = [
            sys.executable,
            "-W",
            "error",
            "-m",
            "tests.search.executor_program",
            name,
            str(folder),
            str(seconds),
        ]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def started(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "working\n"

    def ended(self) -> tuple[str, str]:
        """What else it printed, and its errors: `communicate` would lose lines that came along with the first."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        said, errors = self.process.stdout.read(), self.process.stderr.read()
        self.process.wait(60)
        return said, errors

    def left(self) -> list[str]:
        """Command lines of those of its processes that still run."""
        return left(self.mark)

    def gone(self, but: str | None = None) -> bool:
        return gone(self.mark, but)


@contextmanager
def program(name: str, folder: Path, seconds: float) -> Iterator[Program]:
    it = Program(name, folder, seconds)
    try:
        it.started()
        assert len(it.left()) >= 2
        yield it
    finally:
        it.process.kill()
        it.process.communicate()


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_no_worker_remains_after_close(name: str, tmp_path: Path) -> None:
    with program(name, tmp_path, 0.0) as it:
        said, errors = it.ended()
        assert sorted(said.split()) == ["0", "1", "2", "3", "closed"]
        assert (it.process.returncode, errors) == (0, "")
        assert it.gone(), it.left()


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_no_worker_remains_after_ctrl_c(name: str, tmp_path: Path) -> None:
    """Ctrl-C of a terminal goes to all of the group."""
    with program(name, tmp_path, 60.0) as it:
        os.killpg(it.process.pid, signal.SIGINT)
        said, errors = it.ended()
        assert not said
        assert errors.splitlines()[-1] == "KeyboardInterrupt"
        assert errors.count("Traceback") == 1, errors
        assert it.gone(), it.left()


def test_no_worker_remains_after_ctrl_c_during_start(tmp_path: Path) -> None:
    """They are silent from the beginning on."""
    it = Program("processes:8", tmp_path, 60.0)
    try:
        while len(it.left()) < 6:
            time.sleep(0.005)
        os.killpg(it.process.pid, signal.SIGINT)
        said, errors = it.ended()
        assert not said
        assert errors.count("Traceback") == 1, errors
        assert it.gone(), it.left()
    finally:
        it.process.kill()
        it.process.communicate()


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_no_worker_remains_after_sigterm(name: str, tmp_path: Path) -> None:
    with program(name, tmp_path, 60.0) as it:
        it.process.terminate()
        assert it.process.wait(30) != 0  # Ray, whose handler may be the one that runs, has codes of its own
        assert it.gone(), it.left()


@pytest.mark.parametrize("name", RAY_FOR_LONG)
def test_no_worker_remains_after_sigkill(name: str, tmp_path: Path) -> None:
    """Two agents of Ray's need a minute to find out, as whoever kills a Ray process sees; they use next to nothing."""
    with program(name, tmp_path, 60.0) as it:
        it.process.kill()
        assert it.process.wait(30) == -signal.SIGKILL
        assert it.gone(but="Agent"), it.left()
