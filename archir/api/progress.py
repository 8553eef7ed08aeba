"""Progress of long work: bars on a terminal and in notebooks, elsewhere a line per epoch on standard error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archir.api.bars import bar
from archir.diagnostics.visible import visible
from archir.search.fronts.figures import measures, shown


def _text(found: Mapping[str, float]) -> str:
    """Measures as text; an accuracy that is alone has no name."""
    named = {name: value for name, value in found.items() if "loss" not in name} or found
    texts = [(name, shown(name, value, 1)) for name, value in named.items()]
    return ", ".join(text if name == "accuracy" and len(texts) == 1 else f"{name} {text}" for name, text in texts)


def remaining(seconds: float, epochs: int) -> str:
    """How long so many epochs will take, each as long as the last: `, about 3 min left`; nothing if none is left."""
    if epochs <= 0:
        return ""
    total = seconds * epochs
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if total >= 1.5 * size:
            return f", about {total / size:.{1 if total < 10 * size else 0}f} {unit} left"
    return f", about {max(1, round(total))} s left"


class TrainingProgress:
    """Shows epoch, loss, held-out measures and the time that is left. Used in a `with` statement."""

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
        """Training begins."""
        self._epochs = epochs
        self._bar = bar("epoch {task.fields[epoch]}", "loss {task.fields[loss]}  held out {task.fields[accuracy]}")
        if self._bar is None:
            return
        self._task = self._bar.add_task("", total=steps, epoch=f"1/{epochs}", loss="-", accuracy="-")
        self._bar.start()

    def step(self, loss: float) -> None:
        """A step was done."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, loss=f"{loss:.3f}")

    def epoch(self, done: Any) -> None:
        """An epoch was done."""
        number, accuracy = done.epoch + 1, _text(done.measures)
        if self._bar is not None:
            self._bar.update(self._task, epoch=f"{min(number + 1, self._epochs)}/{self._epochs}", accuracy=accuracy)
        else:
            text = f"epoch {number}/{self._epochs}: loss {done.loss:.3f}, held out {accuracy}, {done.seconds:.1f} s"
            _say(text + remaining(done.seconds, self._epochs - number))


class SearchProgress:
    """Shows phase, epoch, loss, measures and the time that is left. Used in a `with` statement."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._bar: Any = None
        self._task: Any = None
        self._phase, self._epochs, self._steps, self._accuracy = "", 0, 1, "-"
        self._unit = "epoch"

    def __enter__(self) -> SearchProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def counts(self, unit: str) -> None:
        """What the epochs of the next phase are called."""
        self._unit = unit

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        """A phase begins; before the first, the folder is shown."""
        self._end()
        if self._folder is not None:
            _say(f"run: {self._folder}")
            self._folder = None
        self._phase, self._epochs, self._steps, self._accuracy = phase, epochs, steps, "-"
        self._bar = bar(
            f"{{task.fields[phase]}} {self._unit} {{task.fields[epoch]}}",
            "{task.fields[figure]}  {task.fields[accuracy]}",
        )
        if self._bar is None:
            return
        now = f"{done // steps + 1}/{epochs}"
        total = epochs * steps
        fields = {"phase": phase, "epoch": now, "figure": "-", "accuracy": "-"}
        self._task = self._bar.add_task("", total=total, completed=done, **fields)
        self._bar.start()

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """A step was done."""
        if self._bar is not None:
            name, value = next(iter(measured.items()))
            said = f"{value:.0f}" if name == "failed" else f"{value:.3f}"
            self._bar.update(self._task, completed=index + 1, figure=f"{name} {said}")

    def epoch(self, row: Mapping[str, Any]) -> None:
        """An epoch was done."""
        number = int(row["epoch"]) + 1
        measured = ""
        unnamed = "score" if "trials" in row else "held out"  # of candidates, by a proxy or a scorer of somebody's own
        for prefix, words in (("validation_", "validation"), ("", unnamed)):
            if text := _text(measures(row, prefix)):
                measured = self._accuracy = f"{words} {text}"
        if self._bar is not None:
            now = f"{min(number + 1, self._epochs)}/{self._epochs}"
            self._bar.update(self._task, epoch=now, accuracy=self._accuracy)
            return
        parts = [f"loss {row['loss']:.3f}"] if "loss" in row else []
        parts += [measured] if measured else []
        seconds = float(row["seconds"])
        parts.append(f"{seconds:.1f} s{remaining(seconds, self._epochs - number)}")
        _say(f"{self._phase}: {self._unit} {number}/{self._epochs}: {', '.join(parts)}")


def _say(text: str) -> None:
    print(visible(text), file=sys.stderr, flush=True)
