"""Pareto dominance for minimisation: fronts, ranks, crowding distances, and hypervolume.

Points are processed in lexicographic order. A point can then be dominated only by earlier ones, and the first
objective need not be compared (Zhang et al. 2015, ENS).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = Sequence[tuple[float, ...]]
"""Objective vectors, one per candidate; smaller is better."""
Point = Sequence[float]
"""Objective vector of one candidate."""


def front_indices(values: Values) -> list[int]:
    """Return the indices of the non-dominated vectors in lexicographic order; of equal vectors, only the first."""
    if not values:
        return []
    points, first_indices, _ = _distinct(values)
    current = _Front.of(points.shape[1])
    return [int(index) for point, index in zip(points.tolist(), first_indices, strict=True) if current.add(point)]


def front_ranks(values: Values) -> list[int]:
    """Return the non-dominated-sorting rank of each vector; the first front has rank 0."""
    if not values:
        return []
    if len(values[0]) <= 2:
        return _ranks_in_2d(values)
    points, _, rows = _distinct(values)
    fronts: list[_Front] = []
    point_ranks: list[int] = []
    for point in points.tolist():
        # a point that a front dominates is dominated by all earlier fronts, too: binary search for the rank
        rank = bisect_right(fronts, False, key=lambda candidate: not candidate.dominates(point))
        if rank == len(fronts):
            fronts.append(_Front.of(points.shape[1]))
        fronts[rank].add(point)
        point_ranks.append(rank)
    return [point_ranks[position] for position in rows]


def _ranks_in_2d(values: Values) -> list[int]:
    """Compute front ranks for one or two objectives.

    In lexicographic order, a front dominates a point exactly if the smallest second objective in the front is at
    most that of the point. These minimums increase from front to front, so that the rank is found by binary
    search.
    """
    minimums: list[float] = []
    point_ranks = [0] * len(values)
    previous: tuple[float, ...] | None = None
    rank = 0
    for index in sorted(range(len(values)), key=values.__getitem__):
        point = values[index]
        if point != previous:
            previous, second = point, point[1] if len(point) > 1 else 0.0
            rank = bisect_right(minimums, second)
            minimums[rank : rank + 1] = [second]
        point_ranks[index] = rank
    return point_ranks


def crowding_distances(values: Values) -> list[float]:
    """Return the crowding distance of each vector of one front (Deb et al. 2002, section III-B).

    This is the sum over objectives of the distance between the two adjacent vectors, divided by the range of the
    objective. Vectors at either end of a range get infinity.
    """
    points = np.array(values, float)
    distances = np.zeros(len(points))
    for column in points.T:
        order = np.argsort(column, kind="stable")
        distances[order[[0, -1]]] = np.inf
        extent = column[order[-1]] - column[order[0]]
        if extent > 0:
            distances[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / extent
    return distances.tolist()


def hypervolume(values: Values, reference: Sequence[float]) -> float:
    """Return the hypervolume: the volume dominated by the vectors and bounded by the reference point."""
    if not values:
        return 0.0
    gains = np.array(reference, float) - np.array(values, float)
    return _volume(gains[np.all(gains > 0, axis=1)])


def _distinct(values: Values) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the distinct vectors in lexicographic order [m, k], the index of the first occurrence of each [m], and
    for each input the row of its vector [n]."""
    points, first, inverse = np.unique(np.array(values, float), axis=0, return_index=True, return_inverse=True)
    return points, first, inverse.ravel()


class _Front:
    """Set of mutually non-dominated points, to which points are added in lexicographic order.

    The first objective of a later point is never smaller, so that only the other objectives are stored.
    """

    @staticmethod
    def of(objectives: int) -> _Front:
        """Return an empty front for points with the given number of objectives."""
        return _Staircase() if objectives <= 3 else _Front(objectives)

    def __init__(self, objectives: int) -> None:
        self._others = np.empty((16, objectives - 1))
        self._count = 0

    def dominates(self, point: Point) -> bool:
        """Return True if a point of the front dominates `point`, which must not precede any of them in lexicographic
        order."""
        return bool(np.any(np.all(self._others[: self._count] <= point[1:], axis=1)))

    def add(self, point: Point) -> bool:
        """Add a point unless the front dominates it; return True if it was added."""
        if self.dominates(point):
            return False
        self._add(point)
        return True

    def _add(self, point: Point) -> None:
        """Store a point that the front does not dominate."""
        if self._count == len(self._others):
            self._others = np.concatenate([self._others, np.empty_like(self._others)])
        self._others[self._count] = point[1:]
        self._count += 1


class _Staircase(_Front):
    """Front for up to three objectives, stored as the staircase of the last two.

    Only points that are non-dominated in the last two objectives matter. Sorted by the second objective, they
    decrease in the third, so that dominance is decided by binary search.
    """

    def __init__(self) -> None:
        self._steps: list[float] = []
        self._heights: list[float] = []

    def dominates(self, point: Point) -> bool:
        step, height = self._last_two(point)
        index = bisect_right(self._steps, step)
        return index > 0 and self._heights[index - 1] <= height

    def _add(self, point: Point) -> None:
        """Insert a point into the staircase and remove the steps that it dominates."""
        step, height = self._last_two(point)
        begin = bisect_right(self._steps, step)
        if begin and self._steps[begin - 1] == step:
            begin -= 1
        end = begin
        while end < len(self._heights) and self._heights[end] >= height:
            end += 1
        self._steps[begin:end], self._heights[begin:end] = [step], [height]

    @staticmethod
    def _last_two(point: Point) -> tuple[float, float]:
        """Return the second and third objective, 0 for those that a point lacks."""
        _, step, height = (*point, 0.0, 0.0)[:3]
        return step, height


def _volume(gains: NDArray[Any]) -> float:
    """Compute the volume of a union of boxes with one corner at 0, slicing along the last axis (HSO, While et al.
    2006)."""
    if len(gains) == 0:
        return 0.0
    if gains.shape[1] == 1:
        return float(gains.max())
    gains = gains[np.argsort(-gains[:, -1], kind="stable")]
    depths = gains[:, -1] - np.append(gains[1:, -1], 0.0)
    if gains.shape[1] == 2:
        return float(np.maximum.accumulate(gains[:, 0]) @ depths)
    slices = np.flatnonzero(depths)
    volume = 0.0
    for end in slices:
        boxes = gains[: end + 1, :-1]
        if boxes.shape[1] >= 3:  # drop boxes contained in others; with fewer axes, that costs more than it saves
            boxes = boxes[front_indices([tuple(row) for row in (-boxes).tolist()])]
        volume += _volume(boxes) * float(depths[end])
    return volume
