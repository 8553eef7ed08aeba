"""Whoever is killed while candidates are tried, and whenever: every trial is there once, with the same scores."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from archir import backends
from archir.runs import Run, Trial, summaries
from archir.runs.folder import JOURNAL
from archir.runs.lock import is_locked
from archir.runs.manifest import NAME
from tests.search.marked import gone, left
from tests.soak import with_soak
from tests.torch_backend.forked import Command
from tests.torch_backend.search.test_search_kill import exact
from tests.torch_backend.tried import MODULE, QUICK, SHORT, SLOW, recipe, trials_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are killed, and looked for in /proc")

EVOLVED = 8 + 3 * 6
"""Trials of `evolve`."""


class Driver:
    """A search as a process; all that it starts carry a mark in their environment."""

    def __init__(self, path: Path, folder: Path, quick: bool = False) -> None:
        self.folder, self.mark = folder, f"ARCHIR_TEST={uuid.uuid4().hex}"
        arguments = ["--resume", folder, "--plugin", MODULE] if (folder / NAME).exists() else [path, "-o", folder]
        self.process = Command("search", *arguments, environment=dict([self.mark.split("="), *[QUICK] * quick]))

    def until(self, count: int, phase: str = "evolve") -> list[Trial]:
        """The trials of a phase, as soon as there are so many, or the search ends."""
        found: list[Trial] = []
        while self.process.poll() is None and len(found) < count:
            found = tried(self.folder, phase)
            time.sleep(0.01)
        return found

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        """Its exit code and what it said, after a signal or in its own time."""
        if number is not None:
            self.process.send_signal(number)
        return self.process.end()


def tried(folder: Path, phase: str = "evolve") -> list[Trial]:
    """A phase's trials until now, with how long they took, and where."""
    return Run.open(folder).phase(phase).trials() if (folder / NAME).exists() else []


def put(folder: Path) -> dict[str, int]:
    """How often a trial was written into the journal, by phase."""
    with closing(sqlite3.connect(f"{(folder / JOURNAL).absolute().as_uri()}?mode=ro", uri=True)) as journal:
        return dict(journal.execute("SELECT phase, count(*) FROM log WHERE kind = 'trial' GROUP BY phase"))


def everything(folder: Path) -> Mapping[str, Any]:
    """Everything that a finished search must hold, trials among it."""
    run = Run.open(folder)
    trials = {f"trials of {phase.name}": trials_of(run, phase.name) for phase in run.phases()}
    return {**exact(folder), **trials, "trials that were written": put(folder)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that nobody disturbed, with all that tries candidates."""
    path = recipe(tmp_path_factory.mktemp("whole"), SLOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*QUICK)
        backends.get("torch").search(path, path.parent / "run", device="cpu")
    assert len(tried(path.parent / "run")) == EVOLVED
    return path.parent / "run"


def kills(whole: Path, folder: Path, count: int, seed: int) -> int:
    """Kill a search so often; how often it was killed while it tried candidates. No trial is tried again."""
    draw, killed, path = random.Random(seed), 0, whole.parent / "recipe.toml"
    known: dict[tuple[str, int], Trial] = {}
    for _ in range(count):
        driver = Driver(path, folder)
        while not is_locked(folder) and driver.process.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.random() * 3)
        code, said = driver.end(signal.SIGKILL)
        assert code in (0, -signal.SIGKILL), said
        if not (folder / NAME).exists():
            continue
        run = Run.open(folder)
        now = {(phase.name, trial.id): trial for phase in run.phases() for trial in phase.trials()}
        assert {place: now[place] for place in known} == known
        killed += code != 0 and len(now) > len(known)
        known = now
        if code == 0:  # it was faster: another run
            assert everything(folder) == everything(whole)
            shutil.rmtree(folder)
            known = {}
    code, said = Driver(path, folder).end()
    assert code == 0, said
    assert everything(folder) == everything(whole)
    return killed


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_trials_survive_twenty_driver_kills(whole: Path, tmp_path: Path) -> None:
    assert kills(whole, tmp_path / "run", 20, seed=1) >= 12


def test_interrupted_generation_resumes_without_repeating_trials(whole: Path, tmp_path: Path) -> None:
    """What was tried is kept, and not tried again."""
    path, folder = whole.parent / "recipe.toml", tmp_path / "run"
    driver = Driver(path, folder)
    driver.until(11)
    code, said = driver.end(signal.SIGINT)
    assert (code, "resume it with `archir search --resume" in said) == (130, True), said
    assert "evolve was stopped after" in said
    before = tried(folder)
    assert 11 <= len(before) < EVOLVED
    assert summaries(folder)[0].state == "interrupted"
    code, said = Driver(path, folder, quick=True).end()
    assert code == 0, said
    assert everything(folder) == everything(whole)
    assert tried(folder)[: len(before)] == before  # in as many seconds, by the same process
    assert {trial.worker for trial in tried(folder)[len(before) :]}.isdisjoint({trial.worker for trial in before})


def by(executor: str) -> str:
    """The recipe `SHORT`, whose candidates somebody else scores."""
    return SHORT.replace("[phase.options]", f'[phase.options]\nexecutor = "{executor}"')


def complete(folder: Path, whole: Path) -> None:
    """Every trial is there once, and is what it would be if one process had tried all."""
    run = Run.open(folder)
    assert run.finished
    assert trials_of(run, "evolve") == trials_of(Run.open(whole), "evolve")
    assert run.content("phases/evolve/architecture.json") == Run.open(whole).content("phases/evolve/architecture.json")
    population = json.loads(run.content("summary.json"))["phases"]["evolve"]
    assert (population["trials"], population["failed"]) == (EVOLVED, 0)
    assert put(folder) == {"evolve": EVOLVED}


def disturbed(name: str, whole: Path, folder: Path, worker: int, driver: int) -> None:
    """A search whose worker is killed after so many trials, and whose driver is, and which then goes on."""
    path = recipe(folder.parent / f"{folder.name}-recipe", by(name))
    first = Driver(path, folder)
    found = first.until(worker)
    assert 0 < len(found) < EVOLVED
    os.kill(int(str(found[-1].worker).rpartition(":")[2]), signal.SIGKILL)
    assert len(first.until(driver)) >= driver
    code, said = first.end(signal.SIGKILL)
    assert code == -signal.SIGKILL, said
    before = tried(folder)
    second = Driver(path, folder)
    code, said = second.end()
    assert code == 0, said
    complete(folder, whole)
    after = {trial.id: trial for trial in tried(folder)}
    assert [after[trial.id] for trial in before] == before
    for one in (first, second):
        assert gone(one.mark, but="Agent"), left(one.mark)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", with_soak(["processes:2", "ray"], []))
def test_trials_survive_kill_of_worker_and_driver(name: str, whole: Path, tmp_path: Path) -> None:
    disturbed(name, whole, tmp_path / "run", 3, 12)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["processes:2", "ray"])
def test_parallel_trials_survive_twenty_driver_kills(name: str, whole: Path, tmp_path: Path) -> None:
    """Each of the drivers has one trial or more to itself, and loses a worker on the way if there is time."""
    draw, folder, path = random.Random(2), tmp_path / "run", recipe(tmp_path / "recipe", by(name))
    killed, marks = 0, []
    known: list[Trial] = []
    while killed < 20:
        driver = Driver(path, folder)
        marks.append(driver.mark)
        found = driver.until(len(known) + 1)
        if draw.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(int(str(found[-1].worker).rpartition(":")[2]), signal.SIGKILL)
        time.sleep(draw.random() * 0.2)
        code, said = driver.end(signal.SIGKILL)
        assert code in (0, -signal.SIGKILL), said
        killed += code != 0
        now = {trial.id: trial for trial in tried(folder)}
        assert [now[trial.id] for trial in known] == known
        known = list(now.values())
        if len(known) == EVOLVED:  # that was the last one: another run
            code, said = Driver(path, folder).end()
            assert code == 0, said
            complete(folder, whole)
            shutil.rmtree(folder)
            known = []
    code, said = Driver(path, folder).end()
    assert code == 0, said
    complete(folder, whole)
    for mark in marks:  # two agents of Ray's need a minute to find out
        assert gone(mark, seconds=90), left(mark)
