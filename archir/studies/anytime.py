"""Anytime performance of searches: solution quality after each full evaluation, relative to the best of the table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from archir.search.objectives import Objectives
from archir.search.pareto import front_indices, hypervolume
from archir.studies.searches import NOT_IN_TABLE, Trials
from archir.studies.study import LoadedTask

Floats = NDArray[np.float64]
CURVE_FACTORS = (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
"""Factors of each power of ten at which curves have points."""
_MIN_FULL_BUDGET = 1 - 1e-9
"""Minimum fraction of the full budget that counts as a full evaluation; allows for rounding."""


@dataclass(frozen=True)
class GroundTruth:
    """Ground truth of a task: the objectives of all rows of its table, as numbers to minimize [rows, objectives]."""

    scene: LoadedTask

    @cached_property
    def values(self) -> Floats:
        """Objectives of each row; infinite if a measure is missing or the architecture violates the bounds."""
        task = self.scene
        objectives = Objectives(task.space, task.objectives)
        codes = np.array(list(task.table.rows), np.int16)
        costs = task.space.cost(codes, objectives.costs) if objectives.costs else {}
        columns = []
        for objective in objectives.each:
            column = costs[objective.name] if objective.name in costs else task.table.values[objective.name][-1][1]
            numbers = np.array(column, np.float64)
            columns.append(np.where(np.isfinite(numbers), -numbers if objective.maximize else numbers, inf))
        values = np.stack(columns, 1)
        values[~task.space.bounds_mask(codes)] = inf
        return values

    @cached_property
    def front(self) -> Floats:
        """True Pareto front [points, objectives]."""
        rows = self.values[np.isfinite(self.values).all(1)]
        return rows[front_indices([tuple(row) for row in rows.tolist()])]

    @cached_property
    def reference(self) -> Floats:
        """Reference point of hypervolumes: the worst value of the table in each objective."""
        return np.asarray(self.values[np.isfinite(self.values).all(1)].max(0), np.float64)

    @cached_property
    def volume(self) -> float:
        """Hypervolume of the true Pareto front."""
        return hypervolume([tuple(row) for row in self.front.tolist()], self.reference.tolist())

    @cached_property
    def scale(self) -> tuple[float, float]:
        """Best value of the table and the distance of the median from it, for a single objective; they define regrets
        of 0 and 1."""
        column = self.values[np.isfinite(self.values[:, 0]), 0]
        best = float(column.min())
        return best, max(float(np.median(column)) - best, 1e-300)

    def quality(self, trials: Trials, at: Floats) -> Floats:
        """Return the quality of the full evaluations after `at` evaluations [len(at)]; larger is better for several
        objectives.

        For one objective it is the best value in its own units, for several the fraction of the true front's
        hypervolume. NaN before the first full evaluation.
        """
        rows, spent = self._full_evaluations(trials)
        places = np.searchsorted(spent, at * (1 + 1e-9), side="right")
        if not self.scene.is_multi_objective:
            best = np.append(np.nan, self._sign * np.minimum.accumulate(self.values[rows, 0]))
            return np.where(np.isfinite(best[places]), best[places], np.nan)
        return np.array([self._hypervolume_share(rows[:place]) if place else np.nan for place in places])

    def regrets(self, trials: Trials, at: Floats) -> Floats:
        """Return the quality as regret, to minimize: 0 is the optimum, 1 the median network, or no share of the true
        front."""
        quality = self.quality(trials, at)
        if self.scene.is_multi_objective:
            return np.where(np.isnan(quality), 1.0, 1.0 - quality)
        best, median_gap = self.scale
        return np.where(np.isnan(quality), inf, (self._sign * quality - best) / median_gap)

    def distance(self, trials: Trials, at: float) -> float:
        """Return the inverted generational distance (IGD) after `at` evaluations.

        It is the mean distance of the true front's points to the nearest evaluated point; objectives are divided by the
        extents of the front.
        """
        rows, spent = self._full_evaluations(trials)
        tried = self.values[rows[: int(np.searchsorted(spent, at * (1 + 1e-9), side="right"))]]
        tried = tried[np.isfinite(tried).all(1)]
        if not len(tried):
            return inf
        extents = np.maximum(self.front.max(0) - self.front.min(0), 1e-300)
        gaps = (self.front[:, None, :] - tried[None, :, :]) / extents
        return float(np.sqrt((gaps**2).sum(2)).min(1).mean())

    @cached_property
    def _sign(self) -> float:
        """-1 if the first objective is maximized, else 1."""
        return -1.0 if Objectives(self.scene.space, self.scene.objectives).each[0].maximize else 1.0

    def _hypervolume_share(self, rows: NDArray[np.int64]) -> float:
        """Return the hypervolume of some rows as a fraction of the true front's."""
        points = self.values[rows]
        points = points[np.isfinite(points).all(1)]
        return hypervolume([tuple(row) for row in points.tolist()], self.reference.tolist()) / max(self.volume, 1e-300)

    def _full_evaluations(self, trials: Trials) -> tuple[NDArray[np.int64], Floats]:
        """Return the rows that were evaluated with the full budget, and the total budget spent up to each."""
        rows, fractions = np.array(trials.rows, np.int64), np.array(trials.budgets, np.float64)
        is_full = (fractions >= _MIN_FULL_BUDGET) & (rows != NOT_IN_TABLE)
        return rows[is_full], np.cumsum(fractions)[is_full]


def curve_points(max_evaluations: float, budgets: tuple[float, ...]) -> Floats:
    """Return the numbers of evaluations at which curves have points: 1, 2, 3... 10, 15, 20..., and the budgets."""
    rounded = {factor * 10.0**power for power in range(7) for factor in CURVE_FACTORS}
    return np.array(
        sorted({value for value in rounded if value <= max_evaluations and value == int(value)} | set(budgets)),
        np.float64,
    )
