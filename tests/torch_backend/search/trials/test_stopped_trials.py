"""Who tries candidates, what happens when somebody stops it, and what was lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from archir import backends
from archir.cli import main
from archir.diagnostics.errors import ArchError, Interrupted
from archir.recipes.spaces import load_space
from archir.runs import Run
from archir.runs.folder import JOURNAL
from archir.search.trial_progress import TrialProgress
from archir.spaces.space import Space
from archir_torch.search.job import Job, create_strategy
from archir_torch.search.task import Task
from archir_torch.strategies.trials import TrialStrategy
from archir_torch.training.loop import NullCallback
from archir_torch.training.loop import run as through
from tests.soak import with_soak
from tests.torch_backend.search.trials.test_scoring import scored_by
from tests.torch_backend.tried import COUNTS, QUICK, RECIPE, SHORT, job, recipe, trials_of


def test_command_line_executor_overrides_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom a recipe names need not be there; and what is not there is said before anything is trained."""
    monkeypatch.setenv(*QUICK)
    text = SHORT.replace("[phase.options]", '[phase.options]\nexecutor = "nowhere"')
    arguments = ["search", str(recipe(tmp_path, text)), "-o", str(tmp_path / "run"), "--device", "cpu"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code != 0
    assert "A2601" in done.output
    assert "there is no executor `nowhere`" in done.output
    assert not (tmp_path / "run").exists()
    done = CliRunner().invoke(main, [*arguments, "--executor", "local"])
    assert done.exit_code == 0, done.output
    assert len(Run.open(tmp_path / "run").phase("evolve").trials()) == COUNTS["evolve"]
    arguments[1] = str(recipe(tmp_path / "other", SHORT))
    arguments[3] = str(tmp_path / "third")
    done = CliRunner().invoke(main, [*arguments, "--executor", "nowhere"])
    assert "A2601" in done.output


def test_scoring_keeps_worker_signal_handlers(supernet: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches workers, too; what is under way there is the driver's to give up."""
    score, _ = scored_by(replace(supernet, weights=None, supernet=None), kind="training")
    seen = []
    measured = Task.measure

    def looked(*arguments: Any) -> dict[str, float]:
        seen.append(signal.getsignal(signal.SIGINT))
        return measured(*arguments)

    monkeypatch.setattr(Task, "measure", looked)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        score(supernet.space.sample(0), 1.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIG_IGN]


def test_interrupt_abandons_candidate_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    one = job("random", {"scorer": {"kind": "training"}, "trials": 6})
    phase = create_strategy(one)
    assert isinstance(phase, TrialStrategy)
    losses = 0
    loss = Task.loss

    def signalled(*arguments: Any) -> torch.Tensor:
        nonlocal losses
        losses += 1
        if losses == 18:  # each is trained for 8 steps
            os.kill(os.getpid(), signal.SIGINT)
        return loss(*arguments)

    monkeypatch.setattr(Task, "loss", signalled)
    with phase, pytest.raises(Interrupted, match="search was stopped after 2 trials"):
        through(phase, epochs=phase.epochs, steps=phase.steps, phase="search")
    assert losses < 24
    assert [trial.status for trial in one.trials.by_id.values()] == ["done"] * 2


class Watching(NullCallback):
    """Observer that records the state after each trial, and stops the search after `stop` trials."""

    def __init__(self, stop: int = -1) -> None:
        self.states: list[TrialProgress] = []
        self.stop = stop

    def trial(self, state: TrialProgress) -> None:
        self.states.append(state)
        if state.done == self.stop:
            os.kill(os.getpid(), signal.SIGINT)


def test_every_trial_is_reported_with_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    one = job("random", {"scorer": {"kind": "proxies"}, "trials": 8, "batch": 4, "objectives": ["naswot:max"]})
    whole, first, rest = Watching(), Watching(6), Watching()
    phase = create_strategy(one)
    with phase:
        through(phase, epochs=phase.epochs, steps=phase.steps, callback=whole)
    assert [state.done for state in whole.states] == list(range(9))
    assert {(state.total, state.work_total, state.objective) for state in whole.states} == {(8, 8.0, "naswot")}
    lasts = [state.last for state in whole.states]
    assert lasts[0] is None
    assert [state.best for state in whole.states][1:] == [max(lasts[1 : i + 1]) for i in range(1, 9)]

    again = job("random", {"scorer": {"kind": "proxies"}, "trials": 8, "batch": 4, "objectives": ["naswot:max"]})
    phase = create_strategy(again)
    with phase, pytest.raises(Interrupted):
        through(phase, epochs=phase.epochs, steps=phase.steps, callback=first)
    phase = create_strategy(again)
    with phase:
        through(phase, epochs=phase.epochs, steps=phase.steps, callback=rest)
    assert [state.done for state in rest.states] == [6, 7, 8]
    assert rest.states[-1] == whole.states[-1]


class Stopping:
    """Who looks on, and has enough after a generation of `plane`."""

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        self.phase = phase

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        pass

    def epoch(self, row: Mapping[str, object]) -> None:
        if (self.phase, row["epoch"]) == ("plane", 1):
            raise Interrupted("that is enough")


@pytest.mark.parametrize("name", with_soak([JOURNAL, "phases/plane/checkpoint-2.safetensors"], [JOURNAL]))
def test_search_after_lost_trials_equals_undamaged_one(name: str, run: Run, tmp_path: Path) -> None:
    """Of a checkpoint that is older than the journal, nothing: its trials are there."""
    path, torch = recipe(tmp_path), backends.get("torch")
    with pytest.raises(Interrupted):
        torch.search(path, tmp_path / "run", device="cpu", progress=Stopping())
    before = {phase: Run.open(tmp_path / "run").phase(phase).trials() for phase in ("evolve", "plane")}
    assert {phase: len(trials) for phase, trials in before.items()} == {"evolve": 26, "plane": 12}
    file = tmp_path / "run" / name
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ArchError, match="A180"):
        torch.search(None, tmp_path / "run", resume=True, device="cpu")
    torch.search(None, tmp_path / "run", resume=True, fall_back=True, device="cpu")
    found = Run.open(tmp_path / "run")
    for phase in COUNTS:
        assert trials_of(found, phase) == trials_of(run, phase)
        last, wanted = (dict(one.phase(phase).done or {}, seconds=None) for one in (found, run))
        assert last == wanted
    kept = [found.phase(phase).trials()[: len(trials)] == trials for phase, trials in before.items()]
    assert kept == [name != JOURNAL] * 2
    for file_name in ("best.json", "weights.safetensors", "phases/plane/front.json"):
        assert found.content(file_name) == run.content(file_name)


def test_search_loads_space_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_of = []

    def counted(path: str, folder: Path, parameters: Mapping[str, Any]) -> Space:
        made_of.append((path, dict(parameters)))
        return load_space(path, folder, parameters)

    monkeypatch.setattr("archir.recipes.spaces.load_space", counted)
    text = RECIPE.replace("[data]", "export = false\n\n[data]", 1)
    backends.get("torch").search(recipe(tmp_path, text), tmp_path / "run", device="cpu")
    assert made_of == [("elastic.arch", {})]
