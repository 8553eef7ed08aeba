"""How good a search was after each full evaluation, compared with all that its table has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from archir.search.objectives import Objectives
from archir.search.pareto import front, hypervolume
from archir.studies.cells import NONE, Trials
from archir.studies.study import Scene

Floats = NDArray[np.float64]
MARKS = (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
"""Where curves have points, of each power of ten."""
_FULL = 1 - 1e-9


@dataclass(frozen=True)
class Truth:
    """What a table has: objectives of all its rows, the less the better [rows, objectives]."""

    scene: Scene

    @cached_property
    def values(self) -> Floats:
        """Of each row; infinite where a measure is missing."""
        of = self.scene
        aims = Objectives(of.space, of.objectives)
        codes = np.array(list(of.table.rows), np.int16)
        costs = of.space.cost(codes, aims.costs) if aims.costs else {}
        columns = []
        for one in aims.each:
            column = costs[one.name] if one.name in costs else of.table.values[one.name][-1][1]
            numbers = np.array(column, np.float64)
            columns.append(np.where(np.isfinite(numbers), -numbers if one.most else numbers, inf))
        found = np.stack(columns, 1)
        found[~of.space.keeping(codes)] = inf
        return found

    @cached_property
    def front(self) -> Floats:
        """The true front [points, objectives]."""
        rows = self.values[np.isfinite(self.values).all(1)]
        return rows[front([tuple(row) for row in rows.tolist()])]

    @cached_property
    def reference(self) -> Floats:
        """The worst of the table in each objective: hypervolumes are measured from there."""
        return np.asarray(self.values[np.isfinite(self.values).all(1)].max(0), np.float64)

    @cached_property
    def volume(self) -> float:
        """The hypervolume of the true front."""
        return hypervolume([tuple(row) for row in self.front.tolist()], self.reference.tolist())

    @cached_property
    def scale(self) -> tuple[float, float]:
        """Of one objective, the best of the table and how far the median is from it: regrets of 0 and 1."""
        column = self.values[np.isfinite(self.values[:, 0]), 0]
        best = float(column.min())
        return best, max(float(np.median(column)) - best, 1e-300)

    def found(self, trials: Trials, at: Floats) -> Floats:
        """How good what was tried with the full budget is after so many full evaluations [len(at)], the more the
        better: of one objective the best value, in its own units; of several the share of the true hypervolume. NaN
        before there is any."""
        rows, spent = self._full(trials)
        places = np.searchsorted(spent, at * (1 + 1e-9), side="right")
        if not self.scene.several:
            best = np.append(np.nan, self._sign * np.minimum.accumulate(self.values[rows, 0]))
            return np.where(np.isfinite(best[places]), best[places], np.nan)
        return np.array([self._share(rows[:place]) if place else np.nan for place in places])

    def regrets(self, trials: Trials, at: Floats) -> Floats:
        """The same, the less the better: 0 is the best there is; 1 is the median network, or nothing of the front."""
        found = self.found(trials, at)
        if self.scene.several:
            return np.where(np.isnan(found), 1.0, 1.0 - found)
        best, width = self.scale
        return np.where(np.isnan(found), inf, (self._sign * found - best) / width)

    def distance(self, trials: Trials, at: float) -> float:
        """The mean distance of points of the true front to the nearest that was found (IGD), objectives being divided
        by the front's extents."""
        rows, spent = self._full(trials)
        tried = self.values[rows[: int(np.searchsorted(spent, at * (1 + 1e-9), side="right"))]]
        tried = tried[np.isfinite(tried).all(1)]
        if not len(tried):
            return inf
        extents = np.maximum(self.front.max(0) - self.front.min(0), 1e-300)
        gaps = (self.front[:, None, :] - tried[None, :, :]) / extents
        return float(np.sqrt((gaps**2).sum(2)).min(1).mean())

    @cached_property
    def _sign(self) -> float:
        return -1.0 if Objectives(self.scene.space, self.scene.objectives).each[0].most else 1.0

    def _share(self, rows: NDArray[np.int64]) -> float:
        points = self.values[rows]
        points = points[np.isfinite(points).all(1)]
        return hypervolume([tuple(row) for row in points.tolist()], self.reference.tolist()) / max(self.volume, 1e-300)

    def _full(self, trials: Trials) -> tuple[NDArray[np.int64], Floats]:
        """Rows that were tried with the full budget, and what was spent until each was known."""
        rows, parts = np.array(trials.rows, np.int64), np.array(trials.budgets, np.float64)
        kept = (parts >= _FULL) & (rows != NONE)
        return rows[kept], np.cumsum(parts)[kept]


def marks(most: float, budgets: tuple[float, ...]) -> Floats:
    """Numbers of evaluations at which curves have points: 1, 2, 3... 10, 15, 20..., and the budgets."""
    rounded = {factor * 10.0**power for power in range(7) for factor in MARKS}
    return np.array(sorted({one for one in rounded if one <= most and one == int(one)} | set(budgets)), np.float64)
