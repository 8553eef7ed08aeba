"""A run that is killed, at whatever moment, is whole, and ends as one that was not."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archir.runs import Run, summaries
from archir.runs.lock import is_locked
from archir.runs.manifest import NAME
from tests.conftest import ROOT
from tests.runs.scenario import outcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    paths = ":".join(str(path) for path in (ROOT, ROOT / "backends", ROOT / "grammar"))
    command = [sys.executable, "-m", "tests.runs.scenario", str(folder), *more]
    return subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": paths}, text=True, stdout=subprocess.PIPE)


def kills(folder: Path, count: int, seed: int) -> None:
    """Kill a run so often, each time somewhere in its work, and let it end."""
    draw = random.Random(seed)
    for _ in range(count):
        with started(folder) as process:
            until = time.monotonic() + 30
            while not is_locked(folder) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.001)
            time.sleep(draw.random() * 0.4)
            process.send_signal(signal.SIGKILL)
        assert not is_locked(folder)
        if (folder / NAME).exists():
            Run.open(folder)
            assert summaries(folder)[0].state in ("interrupted", "finished")
    with started(folder) as process:
        assert process.wait() == 0
    assert summaries(folder)[0].state == "finished"


def sweeps(folder: Path, every: int) -> int:
    with started(folder, "every", str(every)) as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    return int(said)


def same(one: Path, other: Path) -> None:
    first, second = outcome(one), outcome(other)
    assert first == second
    assert first["finished"]
    assert first["phases"][0][1] == {"total": 30}


def test_run_killed_at_random_times_equals_uninterrupted_run(tmp_path: Path) -> None:
    kills(tmp_path / "killed", 5, seed=1)
    kills(tmp_path / "whole", 0, seed=1)
    same(tmp_path / "killed", tmp_path / "whole")


def test_run_killed_at_sampled_moments_resumes_correctly(tmp_path: Path) -> None:
    assert sweeps(tmp_path, 41) > 400


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_run_killed_twenty_times_equals_uninterrupted_run(seed: int, tmp_path: Path) -> None:
    kills(tmp_path / "killed", 20, seed)
    kills(tmp_path / "whole", 0, seed)
    same(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_run_killed_at_every_moment_resumes_correctly(tmp_path: Path) -> None:
    assert sweeps(tmp_path, 1) > 400
