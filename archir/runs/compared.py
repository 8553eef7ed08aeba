"""Runs side by side: the settings in which they differ, and what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from archir.runs.run import Run
from archir.runs.settings import differences, settings
from archir.runs.summaries import Summary
from archir.search.fronts.figures import shown

OVER_SEEDS = "mean and deviation"


@dataclass(frozen=True)
class Compared:
    """`told` are the settings that differ, by key, `came` what runs came to: a text for each run. `over` is the mean of
    their scores and the deviation of a sample, if the seed alone differs; empty without scores, else None."""

    names: Sequence[str]
    told: dict[str, list[str]]
    came: dict[str, list[str]]
    over: str | None

    @property
    def head(self) -> list[str]:
        """What is above the rows."""
        return ["", *self.names, *([] if self.over is None else [OVER_SEEDS])]

    @property
    def rows(self) -> list[list[str]]:
        """All of it, as a table."""
        rows = [[key, *values] for key, values in {**self.told, **self.came}.items()]
        if self.over is None:
            return rows
        return [[*row, self.over if row[0] == "score" else ""] for row in rows]


def compared(found: Sequence[tuple[Path, Summary]]) -> Compared:
    """Runs that are whole, side by side."""
    told = differences([settings(Run.open(path)) for path, _ in found])
    runs = [one for _, one in found]
    if "seed" in told:
        told["seed"] = [str(one.seed or 0) for one in runs]
    came = {
        "score": [score(one) for one in runs],
        "params": [number(one.params) for one in runs],
        "MACs": [number(one.macs) for one in runs],
    }
    came = {name: texts for name, texts in came.items() if any(texts)}
    return Compared(labels(found), told, came, _over(runs) if told.keys() == {"seed"} else None)


def labels(found: Sequence[tuple[Path, Summary]]) -> list[str]:
    """The names of runs; of those whose names are alike, their folders."""
    names = Counter(one.name for _, one in found)
    return [one.name if names[one.name] == 1 else str(path) for path, one in found]


def score(one: Summary) -> str:
    """The score of a run, named where it is no accuracy."""
    text = "" if one.score is None else shown(one.criterion, one.score)
    return f"{one.criterion} {text}" if text and one.criterion != "accuracy" else text


def number(value: int | None) -> str:
    """Three digits and a magnitude: `1.23M`."""
    if value is None:
        return ""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return str(value)


def _over(runs: Sequence[Summary]) -> str:
    scores = [one.score for one in runs if one.score is not None]
    if len(scores) < 2 or len({one.criterion for one in runs}) > 1:
        return ""
    name = runs[0].criterion
    return f"{shown(name, mean(scores))} +- {shown(name, stdev(scores))}"
