"""Progress of long work, on a terminal and in plain output."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from archir.api.progress import SearchProgress, TrainingProgress
from archir.cli.progress import track_progress
from archir.cli.study import _ProgressPrinter
from archir.search.trial_progress import TrialProgress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error is one, where no cursor moves."""
    terminal = SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True), modules={})
    monkeypatch.setattr("archir.cli.progress.sys", terminal)
    monkeypatch.setattr("archir.api.bars.sys", terminal)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "120")


def epoch(number: int, **measures: float) -> SimpleNamespace:
    return SimpleNamespace(epoch=number, loss=0.25, measures=measures, seconds=1.5)


def test_progress_without_terminal_returns_same_iterable(capsys: pytest.CaptureFixture[str]) -> None:
    items = [3, 1, 2]
    assert track_progress(items, 3, "counting") is items
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("terminal")
def test_progress_bar_yields_all_items_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    items = [3, 1, 2]
    found = track_progress(items, 3, "counting")
    assert found is not items
    assert list(found) == items
    assert capsys.readouterr().out == ""


def test_each_epoch_of_training_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress() as progress:
        progress.start(2, 10)
        progress.step(0.5)
        progress.epoch(epoch(0, accuracy=0.5, loss=1.0))
        progress.epoch(epoch(1, loss=0.75))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "epoch 1/2: loss 0.250, held out 50.0%, 1.5 s, about 2 s left",
        "epoch 2/2: loss 0.250, held out loss 0.75, 1.5 s",
    ]


@pytest.mark.usefixtures("terminal")
def test_training_is_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress() as progress:
        progress.start(2, 10)
        progress.step(0.5)
        task = progress._bar.tasks[0]
        assert (task.completed, task.total) == (1, 10)
        assert task.fields == {"epoch": "1/2", "loss": "0.500", "accuracy": "-"}
        progress.epoch(epoch(0, accuracy=0.5))
        assert task.fields["epoch"] == "2/2"
        progress.epoch(epoch(1, accuracy=0.625))
        assert task.fields["epoch"] == "2/2"
    said = capsys.readouterr()
    assert said.out == ""
    assert "held out 62.5%" in said.err


def test_search_prints_folder_once_and_one_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    with SearchProgress(Path("runs/one")) as progress:
        progress.start("first", 2, 5, 0)
        progress.step(0, {"loss": 0.5})
        progress.epoch({"epoch": 0, "loss": 0.5, "validation_accuracy": 0.25, "seconds": 2})
        progress.start("second", 1, 5, 0)
        progress.epoch({"epoch": 0, "accuracy": 0.75, "validation_accuracy": 0.25, "seconds": 3})
        progress.epoch({"epoch": 1, "seconds": 3})
    assert capsys.readouterr().err.splitlines() == [
        "run: runs/one",
        "first: epoch 1/2: loss 0.500, validation 25.0%, 2.0 s, about 2 s left",
        "second: epoch 1/1: held out 75.0%, 3.0 s",
        "second: epoch 2/1: 3.0 s",
    ]


def trials(done: int, last: float | None = None, best: float | None = None, failed: int = 0) -> TrialProgress:
    return TrialProgress(done, 40, failed, done / 4, 10.0, "accuracy", last, best)


def test_trials_are_lines_with_best_so_far_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work left is more than the trials left, as in successive halving; two lines are five seconds apart."""
    now = [100.0]
    monkeypatch.setattr("archir.api.progress.time.monotonic", lambda: now[0])
    with SearchProgress() as progress:
        progress.counts("generation")
        progress.trial(trials(4))
        progress.start("evolve", 3, 1, 0)
        for seconds, state in (
            (20, trials(5, 0.5, 0.5)), (22, trials(6, 0.25, 0.5)), (25, trials(7, None, 0.5, failed=1)),
            (60, trials(8, 0.75, 0.75, failed=1)),
        ):  # fmt: skip
            now[0] = 100.0 + seconds
            progress.trial(state)
        progress.step(0, {"failed": 1.0})
        progress.epoch({"epoch": 1, "trials": 4, "accuracy": 0.75, "seconds": 3})
        progress.epoch(
            {"epoch": 2, "trials": 4, "accuracy": 0.75, "seconds": 3, "finished": "all planned candidates were tried"}
        )
        progress.counts("epoch")
        progress.start("last", 1, 5, 0)
        progress.epoch({"epoch": 0, "accuracy": 0.75, "seconds": 3})
    assert capsys.readouterr().err.splitlines() == [
        "evolve: trial 5/40: best accuracy 50.0%, last 50.0%, 20.0 s, about 12 min left",
        "evolve: trial 7/40: best accuracy 50.0%, 1 failed, last failed, 25.0 s, about 4.6 min left",
        "evolve: trial 8/40: best accuracy 75.0%, 1 failed, last 75.0%, 60.0 s, about 8.0 min left",
        "evolve: 8 trials (all planned candidates were tried): best accuracy 75.0%, 1 failed, 60.0 s",
        "last: epoch 1/1: held out 75.0%, 3.0 s",
    ]


def test_a_phase_with_one_trial_is_counted_in_the_singular(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archir.api.progress.time.monotonic", lambda: 100.0)
    with SearchProgress() as progress:
        progress.start("largest", 1, 1, 0)
        progress.trial(TrialProgress(1, 1, 0, 1.0, 1.0, "accuracy", 0.5, 0.5))
        progress.epoch({"epoch": 0, "trials": 1, "accuracy": 0.5, "seconds": 3})
    assert capsys.readouterr().err.splitlines()[-1] == "largest: 1 trial: best accuracy 50.0%, 0.0 s"


def test_studies_print_time_left(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("archir.cli.study.time.monotonic", lambda: now[0])
    progress = _ProgressPrinter("searches")
    for seconds, done in ((0, 3), (20, 4), (22, 5), (40, 6), (120, 10)):
        now[0] = 100.0 + seconds
        progress(done, 10)
    assert capsys.readouterr().err.splitlines() == [
        "3 of 10 searches", "4 of 10 searches, about 2.0 min left", "6 of 10 searches, about 53 s left",
        "10 of 10 searches",
    ]  # fmt: skip


@pytest.mark.usefixtures("terminal")
def test_trials_are_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("archir.api.progress.time.monotonic", lambda: now[0])
    with SearchProgress() as progress:
        progress.counts("generation")
        progress.trial(trials(4))
        progress.start("evolve", 3, 1, 0)
        task = progress._bar.tasks[0]
        assert (task.completed, task.total, task.fields["trial"]) == (4, 40, "4/40")
        now[0] = 120.0
        progress.trial(trials(5, 0.5, 0.5))
        progress.step(0, {"failed": 0.0})
        progress.epoch({"epoch": 1, "accuracy": 0.5, "seconds": 3})
        assert (task.completed, task.fields["trial"]) == (5, "5/40")
        assert task.fields["report"] == "best accuracy 50.0%, last 50.0%, about 12 min left"
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("terminal")
def test_resumed_search_bar_starts_at_resumed_step(capsys: pytest.CaptureFixture[str]) -> None:
    with SearchProgress() as progress:
        progress.start("first", 4, 5, 10)
        first = progress._bar
        task = first.tasks[0]
        assert (task.completed, task.total) == (10, 20)
        assert task.fields["epoch"] == "3/4"
        progress.step(11, {"loss": 0.5, "entropy": 0.1})
        assert (task.completed, task.fields["figure"]) == (12, "loss 0.500")
        progress.epoch({"epoch": 2, "validation_accuracy": 0.25, "seconds": 2})
        assert (task.fields["epoch"], task.fields["accuracy"]) == ("4/4", "validation 25.0%")
        progress.epoch({"epoch": 3, "seconds": 2})
        assert task.fields["accuracy"] == "validation 25.0%", "what was measured last stays"
        progress.start("second", 1, 5, 0)
        assert first.finished or not first.live.is_started
        assert progress._bar is not first
        assert progress._bar.tasks[0].fields["accuracy"] == "-"
    assert progress._bar is None
    assert capsys.readouterr().out == ""
