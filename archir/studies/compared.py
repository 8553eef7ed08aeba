"""What a study came to: curves, figures at each budget, ranks and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from archir.studies.anytime import Floats, Truth, marks
from archir.studies.cells import Cell, Trials
from archir.studies.statistics import better, groups, holm, ranks, signed_ranks
from archir.studies.study import Scene, Study

LEVEL = 0.05
"""P-values below it are differences."""
_PLAIN = 12


@dataclass(frozen=True)
class OnTask:
    """A task: points of curves, and of each strategy the values of all seeds there [seeds, points]."""

    name: str
    of: str
    """What the values are."""
    percent: bool
    larger: bool
    at: Floats
    values: Sequence[Floats]
    regrets: Sequence[Floats]
    """At the budgets [seeds, budgets]."""
    distances: Sequence[Floats]
    """Of fronts, IGD at the budgets [seeds, budgets]; else none."""
    best: float
    """That the table has."""


@dataclass(frozen=True)
class AtBudget:
    """All tasks and seeds together after so many full evaluations."""

    budget: float
    ranks: Sequence[float]
    """Mean ranks, 1 the best."""
    corrected: Mapping[tuple[int, int], float]
    """P-values of pairs, after Holm."""
    groups: Sequence[Sequence[int]]
    better: Sequence[Sequence[float]]
    """How likely the strategy of the row is better than that of the column."""


@dataclass(frozen=True)
class Compared:
    """All of it."""

    study: Study
    strategies: Sequence[str]
    tasks: Sequence[OnTask]
    budgets: Sequence[AtBudget]


def compared(study: Study, scenes: Sequence[Scene], tried: Mapping[Cell, Trials]) -> Compared:
    """What searches came to; seeds that a strategy failed at are left out for all of them."""
    at = marks(max(study.budgets), study.budgets)
    tasks = [_on_task(study, number, scene, tried, at) for number, scene in enumerate(scenes)]
    budgets = [_at_budget(number, budget, tasks) for number, budget in enumerate(study.budgets)]
    return Compared(study, [one.name for one in study.strategy], tasks, budgets)


def _on_task(study: Study, number: int, of: Scene, tried: Mapping[Cell, Trials], at: Floats) -> OnTask:
    truth = Truth(of)
    many = range(len(study.strategy))
    seeds = [
        seed
        for seed in range(study.seed, study.seed + study.seeds)
        if all(Cell(number, one, seed) in tried for one in many)
    ]
    searches = [[tried[Cell(number, one, seed)] for seed in seeds] for one in many]
    budgets = np.array(study.budgets, np.float64)
    values = [_stacked([truth.found(one, at) for one in those], len(at)) for those in searches]
    regrets = [_stacked([truth.regrets(one, budgets) for one in those], len(budgets)) for those in searches]
    distances = [
        _stacked([np.array([truth.distance(one, budget) for budget in study.budgets]) for one in those], len(budgets))
        for those in searches
        if of.several
    ]
    name, _, sense = of.objectives[0].rpartition(":")
    what = "hypervolume, part of the true front's" if of.several else name
    best = 1.0 if of.several else (-1.0 if sense == "max" else 1.0) * truth.scale[0]
    return OnTask(
        of.task.name, what, of.several or ("accuracy" in name and best <= 1), of.several or sense == "max", at,
        values, regrets, distances, best,
    )  # fmt: skip


def _stacked(rows: Sequence[Floats], columns: int) -> Floats:
    return np.stack(rows) if rows else np.zeros((0, columns))


def _at_budget(number: int, budget: float, tasks: Sequence[OnTask]) -> AtBudget:
    count = len(tasks[0].regrets)
    blocks = np.concatenate([np.stack([one[:, number] for one in task.regrets], 1) for task in tasks])
    means = np.stack([ranks(row) for row in np.round(blocks, _PLAIN)]).mean(0).tolist()
    with np.errstate(invalid="ignore"):
        tests = {
            (a, b): signed_ranks(np.round(blocks[:, a] - blocks[:, b], _PLAIN).tolist())
            for a, b in combinations(range(count), 2)
        }
    corrected = holm(tests)
    chances = [[_chance(tasks, number, a, b) for b in range(count)] for a in range(count)]
    return AtBudget(budget, means, corrected, groups(means, corrected, LEVEL), chances)


def _chance(tasks: Sequence[OnTask], number: int, a: int, b: int) -> float:
    """The mean over tasks of how likely one is better, seed against seed."""
    sides = [(np.round(t.regrets[a][:, number], _PLAIN), np.round(t.regrets[b][:, number], _PLAIN)) for t in tasks]
    found = [better(one, other) for one, other in sides if len(one)]
    return float(np.mean(found)) if found else 0.5


def rows(found: Compared) -> Iterator[dict[str, Any]]:
    """A row for each task, budget and strategy: median, quartiles, mean and standard error, ranks."""
    for task in found.tasks:
        for number, budget in enumerate(found.budgets):
            place = int(np.flatnonzero(task.at == budget.budget)[0])
            for one, name in enumerate(found.strategies):
                column = task.values[one][:, place]
                column = column[~np.isnan(column)]
                quartiles = np.percentile(column, [25, 50, 75]).tolist() if len(column) else [None] * 3
                error = float(column.std(ddof=1) / len(column) ** 0.5) if len(column) > 1 else None
                yield {
                    "task": task.name, "strategy": name, "evaluations": budget.budget, "seeds": len(column),
                    "median": quartiles[1], "quartile_1": quartiles[0], "quartile_3": quartiles[2],
                    "mean": float(column.mean()) if len(column) else None, "standard_error": error,
                    "igd_median": float(np.median(task.distances[one][:, number])) if task.distances else None,
                }  # fmt: skip
