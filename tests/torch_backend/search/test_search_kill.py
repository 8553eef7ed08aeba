"""A search that is killed or stopped, at whatever moment, ends as one that was not."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from math import log
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.runs import Run, summaries
from archir.runs.lock import is_locked
from archir.runs.manifest import NAME
from tests.runs.scenario import HAS_TENSORBOARD
from tests.runs.test_tensorboard import needs_tensorboard, shown
from tests.soak import with_soak
from tests.torch_backend.forked import Command
from tests.torch_backend.searches import recipe

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that nobody disturbed."""
    path = recipe(tmp_path_factory.mktemp("whole"))
    if HAS_TENSORBOARD:
        path.write_text(f"tensorboard = true\n{path.read_text()}")
    code, said = go(path, path.parent / "run").end()
    assert code == 0, said
    return path.parent / "run"


def go(path: Path, folder: Path) -> Command:
    """Begin the search, or go on with it where there is a run."""
    begun = (folder / NAME).exists()
    return Command("search", *(["--resume", folder] if begun else [path, "-o", folder]))


def signalled(path: Path, folder: Path, number: signal.Signals, delay: float) -> tuple[int, str]:
    """Work on the search, which gets a signal some seconds after it has the run; its exit code and what it said."""
    process = go(path, folder)
    until = time.monotonic() + 60
    while not is_locked(folder) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(number)
    return process.end()


def exact(folder: Path) -> Mapping[str, Any]:
    """Everything that a finished search must hold, whatever became of it on the way; reading verifies it."""
    run = Run.open(folder)
    assert run.finished
    names = [name for name in run.entries if not name.startswith(("tensorboard", "metrics"))]
    counted = [name for name in names if "checkpoint" not in name]
    found: dict[str, Any] = {"names": sorted(names)}
    for name in counted:
        content = run.content(name)
        found[name] = timeless(json.loads(content)) if name == "summary.json" else content
        if name == "report.html":
            found[name], times = re.subn(rb'<section id="time">.*?</section>', b"", content, flags=re.DOTALL)
            assert times == 1
    for phase in run.phases():
        found[f"rows of {phase.name}"] = timeless(phase.rows())
        found[f"facts of {phase.name}"] = timeless(phase.done)
        last = phase.last()
        if last is not None:
            found[f"state of {phase.name}"] = {n: bits(t) for n, t in load(last.read("safetensors")).items()}
    return found


def bits(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def timeless(figures: Any) -> Any:
    """Figures without those that say how long something took, or where."""
    if isinstance(figures, list):
        return [timeless(one) for one in figures]
    if isinstance(figures, Mapping):
        return {name: timeless(one) for name, one in figures.items() if name not in ("seconds", "minutes", "folder")}
    return figures


def test_logit_scores_are_sums_of_log_probabilities(whole: Path) -> None:
    """Those of choices that were searched."""
    space = archir.load(next((whole / "space").glob("*.arch")))
    scores = archir.scores(space, logits=f"{whole}:search")
    history = json.loads(Run.open(whole).content("phases/search/alphas.json"))["history"]
    logs = {path: [log(one) for one in rows[-1]] for path, rows in history.items()}
    for architecture in space.enumerate():
        wanted = sum(logs[path][one] for path, one in architecture.outcomes.items() if path in logs)
        assert float(scores(architecture)) == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(ArchError, match=r"A3324.*no architecture parameters of a phase `other`"):
        archir.scores(space, logits=f"{whole}:other")


@needs_tensorboard
def test_tensorboard_shows_probabilities(whole: Path) -> None:
    history = json.loads(Run.open(whole).content("phases/search/alphas.json"))["history"]
    labels = {"first": ["none", "skip", "near", "far"], "inner": ["relu", "gelu"]}
    events = shown(whole)
    assert len(events) == 3
    for epoch, (_, event) in enumerate(events):
        for choice, names in labels.items():
            found = [event[f"{choice}/{name}"] for name in names]
            assert found == pytest.approx(history[choice][epoch + 1], rel=1e-6)


def kills(whole: Path, folder: Path, count: int, seed: int) -> int:
    """Kill a search so often before its end; how often that came about in four times as many attempts."""
    draw = random.Random(seed)
    path, killed, longest = whole.parent / "recipe.toml", 0, 1.5
    for _ in range(4 * count):
        if killed == count:
            break
        begun = time.monotonic()
        code, _ = signalled(path, folder, signal.SIGKILL, draw.random() * longest)
        killed += code == -signal.SIGKILL
        assert code in (0, -signal.SIGKILL), time.monotonic() - begun
        assert not is_locked(folder)
        if (folder / NAME).exists():
            Run.open(folder)
        if code == 0:  # it was faster: another run
            assert exact(folder) == exact(whole)
            shutil.rmtree(folder)
            longest *= 0.6
    code, said = go(path, folder).end()
    assert code == 0, said
    assert exact(folder) == exact(whole)
    return killed


def test_search_killed_twice_equals_uninterrupted_one(whole: Path, tmp_path: Path) -> None:
    assert kills(whole, tmp_path / "run", 2, seed=0) == 2


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_search_killed_twenty_times_equals_uninterrupted_one(whole: Path, tmp_path: Path) -> None:
    assert kills(whole, tmp_path / "run", 20, seed=1) == 20


@pytest.mark.parametrize("number", with_soak([signal.SIGINT, signal.SIGTERM], [signal.SIGTERM]))
def test_search_resumed_after_signal_equals_uninterrupted_one(
    number: signal.Signals, whole: Path, tmp_path: Path
) -> None:
    path, folder = whole.parent / "recipe.toml", tmp_path / "run"
    code, said = signalled(path, folder, number, 0.1)
    assert (code, "resume it with `archir search --resume" in said) == (130, True), said
    assert summaries(folder)[0].state == "interrupted"
    code, said = go(path, folder).end()
    assert code == 0, said
    assert exact(folder) == exact(whole)


def test_a_finished_run_is_left_alone(whole: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in whole.rglob("*") if path.is_file()}
    code, said = go(whole, whole).end()
    assert code == 0
    assert "is finished: nothing is left to do" in said
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in whole.rglob("*") if path.is_file()}
    assert before.keys() == after.keys()
    changed = [path.name for path in before if before[path] != after[path] and path.name != ".lock"]
    assert changed == []
