"""Anytime performance of searches: quality after each full evaluation, relative to the best of the table.

A full evaluation looks up a candidate at the full training budget. Partial budgets count as fractions of one.
"""

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
"""Multiples of each power of ten at which curves have points."""
_MIN_FULL_BUDGET = 1 - 1e-9
"""Minimum fraction of the full budget that counts as a full evaluation; below 1 because of rounding errors."""


@dataclass(frozen=True)
class GroundTruth:
    """Ground truth of a task: the objectives of all rows of its table, as numbers to minimize [rows, objectives]."""

    task: LoadedTask

    @cached_property
    def values(self) -> Floats:
        """Objectives of each row, to minimize; infinite if a measure is missing or the architecture violates the
        bounds."""
        task = self.task
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
    def valid(self) -> Floats:
        """Objectives of the rows that have all of them and satisfy the bounds [rows, objectives]."""
        return self.values[np.isfinite(self.values).all(1)]

    @cached_property
    def front(self) -> Floats:
        """Pareto front of all architectures in the table [points, objectives]."""
        return self.valid[front_indices([tuple(row) for row in self.valid.tolist()])]

    @cached_property
    def reference(self) -> Floats:
        """Reference point for hypervolumes: the worst value in the table for each objective."""
        return np.asarray(self.valid.max(0), np.float64)

    @cached_property
    def volume(self) -> float:
        """Hypervolume of the table's Pareto front."""
        return hypervolume([tuple(row) for row in self.front.tolist()], self.reference.tolist())

    @cached_property
    def scale(self) -> tuple[float, float]:
        """Best value in the table, and difference between median and best value, for a single objective.

        Regret is measured on this scale: it is 0 for the best value and 1 for the median.
        """
        column = self.valid[:, 0]
        best = float(column.min())
        return best, max(float(np.median(column)) - best, 1e-300)

    def quality(self, trials: Trials, at: Floats) -> Floats:
        """Return the quality of a search after each number of evaluations in `at` [len(at)], from its full evaluations.

        For one objective, this is the best value so far in its own units. For several objectives, it is the hypervolume
        so far as a fraction of that of the table's Pareto front; higher is better. NaN before the first full
        evaluation.
        """
        rows, spent = self._full_evaluations(trials)
        places = np.searchsorted(spent, at * (1 + 1e-9), side="right")
        if not self.task.is_multi_objective:
            best = np.append(np.nan, self._sign * np.minimum.accumulate(self.values[rows, 0]))
            return np.where(np.isfinite(best[places]), best[places], np.nan)
        return np.array([self._hypervolume_share(rows[:place]) if place else np.nan for place in places])

    def regrets(self, trials: Trials, at: Floats) -> Floats:
        """Return the quality of a search as regret, to minimize.

        0 is the optimum. 1 is the median architecture for one objective, and a hypervolume of 0 for several.
        """
        quality = self.quality(trials, at)
        if self.task.is_multi_objective:
            return np.where(np.isnan(quality), 1.0, 1.0 - quality)
        best, median_gap = self.scale
        return np.where(np.isnan(quality), inf, (self._sign * quality - best) / median_gap)

    def distances(self, trials: Trials, at: Floats) -> Floats:
        """Return the inverted generational distance (IGD) of a search after each number of evaluations in `at`.

        It is the mean distance from each point of the table's Pareto front to the nearest evaluated point; each
        objective is divided by its range over the front.
        """
        rows, spent = self._full_evaluations(trials)
        places = np.searchsorted(spent, at * (1 + 1e-9), side="right")
        extents = np.maximum(self.front.max(0) - self.front.min(0), 1e-300)

        def distance(points: Floats) -> float:
            valid = points[np.isfinite(points).all(1)]
            gaps = (self.front[:, None, :] - valid[None, :, :]) / extents
            return float(np.sqrt((gaps**2).sum(2)).min(1).mean()) if len(valid) else inf

        return np.array([distance(self.values[rows[:place]]) for place in places])

    @cached_property
    def _sign(self) -> float:
        return -1.0 if Objectives(self.task.space, self.task.objectives).each[0].maximize else 1.0

    def _hypervolume_share(self, rows: NDArray[np.int64]) -> float:
        """Return the hypervolume of the given rows as a fraction of that of the table's Pareto front."""
        points = self.values[rows]
        points = points[np.isfinite(points).all(1)]
        return hypervolume([tuple(row) for row in points.tolist()], self.reference.tolist()) / max(self.volume, 1e-300)

    def _full_evaluations(self, trials: Trials) -> tuple[NDArray[np.int64], Floats]:
        """Return the rows evaluated with the full budget, and the total budget spent up to and including each of
        them."""
        rows, fractions = np.array(trials.rows, np.int64), np.array(trials.budgets, np.float64)
        is_full = (fractions >= _MIN_FULL_BUDGET) & (rows != NOT_IN_TABLE)
        return rows[is_full], np.cumsum(fractions)[is_full]


def curve_points(max_evaluations: float, budgets: tuple[float, ...]) -> Floats:
    """Return the numbers of evaluations at which curves have points.

    These are 1, 2, 3, ..., 10, 15, 20, ..., and the study's budgets.
    """
    rounded = {factor * 10.0**power for power in range(7) for factor in CURVE_FACTORS}
    return np.array(
        sorted({value for value in rounded if value <= max_evaluations and value == int(value)} | set(budgets)),
        np.float64,
    )
