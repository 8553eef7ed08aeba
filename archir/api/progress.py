"""Progress reports of training and search.

They are bars on terminals and in notebooks, and otherwise one line per epoch on stderr.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archir.api.bars import bar
from archir.diagnostics.escaping import escape_unprintable
from archir.search.trial_progress import TrialProgress
from archir.utils.counts import count_noun
from archir.utils.metrics import format_metric, select_measures

TRIAL_INTERVAL = 5.0
"""Minimum seconds between two lines about trials."""


def _format_measures(values: Mapping[str, float]) -> str:
    """Format measures as text, leaving out losses if there are other measures.

    An accuracy that is the only measure is shown without its name.
    """
    named = {name: value for name, value in values.items() if "loss" not in name} or values
    texts = [(name, format_metric(name, value, 1)) for name, value in named.items()]
    return ", ".join(text if name == "accuracy" and len(texts) == 1 else f"{name} {text}" for name, text in texts)


def remaining(seconds: float, epochs: float) -> str:
    """Format the estimated time for `epochs` more epochs (or trials) of `seconds` each: `, about 3 min left`.

    The text is empty if no epochs are left.
    """
    if epochs <= 0:
        return ""
    total = seconds * epochs
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if total >= 1.5 * size:
            return f", about {total / size:.{1 if total < 10 * size else 0}f} {unit} left"
    return f", about {max(1, round(total))} s left"


class TrainingProgress:
    """Context manager that reports the progress of a training: epoch, loss, held-out measures and remaining time."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._epochs = 0
        self._done = 0
        self._accuracy = ""

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, epochs: int, steps: int) -> None:
        """Start the report for a training of `epochs` epochs and `steps` steps in total."""
        self._epochs = epochs
        self._bar = bar("epoch {task.fields[epoch]}", "loss {task.fields[loss]}  held out {task.fields[accuracy]}")
        if self._bar is None:
            return
        self._task = self._bar.add_task("", total=steps, epoch=f"1/{epochs}", loss="-", accuracy="-")
        self._bar.start()

    def step(self, loss: float) -> None:
        """Report the loss of a step."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, loss=f"{loss:.3f}")

    def epoch(self, done: Any) -> None:
        """Report a finished epoch."""
        number, accuracy = done.epoch + 1, _format_measures(done.measures)
        if self._bar is not None:
            self._bar.update(self._task, epoch=f"{min(number + 1, self._epochs)}/{self._epochs}", accuracy=accuracy)
        else:
            text = f"epoch {number}/{self._epochs}: loss {done.loss:.3f}, held out {accuracy}, {done.seconds:.1f} s"
            _print_line(text + remaining(done.seconds, self._epochs - number))


class SearchProgress:
    """Context manager that reports the progress of a search: phase, epoch, loss, measures and remaining time."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._bar: Any = None
        self._task: Any = None
        self._phase, self._epochs, self._steps, self._accuracy = "", 0, 1, "-"
        self._unit = "epoch"
        self._first_trial: TrialProgress | None = None
        """State at the start of a phase that tries candidates; None in other phases."""
        self._last_trial: TrialProgress | None = None
        self._began = self._printed = 0.0

    def __enter__(self) -> SearchProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def counts(self, unit: str) -> None:
        """Set what the next phase counts instead of epochs, such as `generation`."""
        self._unit, self._first_trial = unit, None

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        """Report the start of a phase with `epochs` epochs of `steps` steps.

        In a resumed run, `done` steps are already complete. The first call also prints the run's folder.
        """
        self._end()
        if self._folder is not None:
            _print_line(f"run: {self._folder}")
            self._folder = None
        self._phase, self._epochs, self._steps, self._accuracy = phase, epochs, steps, "-"
        self._began, self._printed = time.monotonic(), -TRIAL_INTERVAL
        if (state := self._first_trial) is not None:
            fields = {"trial": _format_trial(state), "report": "-"}
            self._start_bar("trial {task.fields[trial]}", "{task.fields[report]}", state.total or 1, state.done, fields)
        else:
            fields = {"epoch": f"{done // steps + 1}/{epochs}", "figure": "-", "accuracy": "-"}
            before, after = f"{self._unit} {{task.fields[epoch]}}", "{task.fields[figure]}  {task.fields[accuracy]}"
            self._start_bar(before, after, epochs * steps, done, fields)

    def _start_bar(self, before: str, after: str, total: int, done: int, fields: Mapping[str, str]) -> None:
        """Show a bar if the output can be redrawn; a bar of trials leaves the estimate of the time left to the text."""
        self._bar = bar(f"{{task.fields[phase]}} {before}", after, self._first_trial is None)
        if self._bar is not None:
            self._task = self._bar.add_task("", total=total, completed=done, phase=self._phase, **fields)
            self._bar.start()

    def trial(self, state: TrialProgress) -> None:
        """Report a finished trial, with the best value so far and the time left at the mean speed of the trials.

        The first call comes before the start of a phase that tries candidates. Without a bar, a line is printed, if the
        last one is at least TRIAL_INTERVAL seconds old.
        """
        self._last_trial = state
        if self._first_trial is None:
            self._first_trial = state
            return
        now = time.monotonic()
        seconds, work = now - self._began, state.work_done - self._first_trial.work_done
        left = remaining(seconds / work, state.work_total - state.work_done) if work > 0 else ""
        last = "failed" if state.last is None else format_metric(state.objective, state.last, 1)
        if self._bar is not None:
            report = f"{_format_best(state)}, last {last}{left}"
            self._bar.update(self._task, completed=state.done, trial=_format_trial(state), report=report)
        elif now - self._printed >= TRIAL_INTERVAL:
            self._printed = now
            trial = f"trial {_format_trial(state)}: {_format_best(state)}, last {last}"
            _print_line(f"{self._phase}: {trial}, {seconds:.1f} s{left}")

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """Report the first metric of a step."""
        if self._bar is not None and self._first_trial is None:
            name, value = next(iter(measured.items()))
            text = f"{value:.0f}" if name == "failed" else f"{value:.3f}"
            self._bar.update(self._task, completed=index + 1, figure=f"{name} {text}")

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Report the metrics of a finished epoch."""
        number = int(row["epoch"]) + 1
        if self._last_trial is not None and self._first_trial is not None:
            if self._bar is None and (number == self._epochs or "finished" in row):
                reason = f" ({row['finished']})" if "finished" in row else ""
                trials = f"{count_noun(self._last_trial.done, 'trial')}{reason}: {_format_best(self._last_trial)}"
                _print_line(f"{self._phase}: {trials}, {time.monotonic() - self._began:.1f} s")
            return
        measured = ""
        for prefix, words in (("validation_", "validation"), ("", "held out")):
            if text := _format_measures(select_measures(row, prefix)):
                measured = self._accuracy = f"{words} {text}"
        if self._bar is not None:
            now = f"{min(number + 1, self._epochs)}/{self._epochs}"
            self._bar.update(self._task, epoch=now, accuracy=self._accuracy)
            return
        parts = [f"loss {row['loss']:.3f}"] if "loss" in row else []
        parts += [measured] if measured else []
        seconds = float(row["seconds"])
        parts.append(f"{seconds:.1f} s{remaining(seconds, self._epochs - number)}")
        _print_line(f"{self._phase}: {self._unit} {number}/{self._epochs}: {', '.join(parts)}")


def _format_best(state: TrialProgress) -> str:
    """Format the best value of the objective so far, and the number of failed trials."""
    best = "none" if state.best is None else format_metric(state.objective, state.best, 1)
    return f"best {state.objective} {best}{f', {state.failed:,} failed' if state.failed else ''}"


def _format_trial(state: TrialProgress) -> str:
    """Format the number of finished trials and the maximum number: `17/100`."""
    return f"{state.done:,}/{state.total:,}" if state.total else f"{state.done:,}"


def _print_line(text: str) -> None:
    """Print a line to standard error."""
    print(escape_unprintable(text), file=sys.stderr, flush=True)
