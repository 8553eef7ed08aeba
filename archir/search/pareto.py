"""Pareto dominance of values that are better the less they are: ranks, fronts, crowding, hypervolume.

Points are taken in their lexicographic order, each once. So whatever dominates a point comes before it, and needs to be
compared in the other objectives alone (Zhang et al. 2015, ENS).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = Sequence[tuple[float, ...]]
Point = Sequence[float]


def front(values: Values) -> list[int]:
    """The positions of what nothing dominates, ordered by value; the first one of those that are equal."""
    if not values:
        return []
    points, first, _ = _distinct(values)
    found = _front_of(points.shape[1])
    return [int(position) for point, position in zip(points.tolist(), first, strict=True) if found.take(point)]


def ranks(values: Values) -> list[int]:
    """For each, how many fronts must be taken away until nothing dominates it."""
    if not values:
        return []
    if len(values[0]) <= 2:
        return _ranks_of_two(values)
    points, _, place = _distinct(values)
    fronts: list[_Front] = []
    of: list[int] = []
    for point in points.tolist():
        # what a front dominates, all fronts before it dominate
        rank = bisect_right(fronts, False, key=lambda one: not one.dominates(point))
        if rank == len(fronts):
            fronts.append(_front_of(points.shape[1]))
        fronts[rank].take(point)
        of.append(rank)
    return [of[position] for position in place]


def _ranks_of_two(values: Values) -> list[int]:
    """Of up to two objectives: what was least in the second one, front by front, ascends, and is all that matters."""
    least: list[float] = []
    found = [0] * len(values)
    before: tuple[float, ...] | None = None
    rank = 0
    for place in sorted(range(len(values)), key=values.__getitem__):
        point = values[place]
        if point != before:
            before, second = point, point[1] if len(point) > 1 else 0.0
            rank = bisect_right(least, second)
            least[rank : rank + 1] = [second]
        found[place] = rank
    return found


def crowding(values: Values) -> list[float]:
    """The crowding distances of one front: in each objective, how far the two neighbours are apart, as a part of what
    all of the front are; infinite at its ends (Deb et al. 2002, section III-B)."""
    points = np.array(values, float)
    found = np.zeros(len(points))
    for column in points.T:
        order = np.argsort(column, kind="stable")
        found[order[[0, -1]]] = np.inf
        extent = column[order[-1]] - column[order[0]]
        if extent > 0:
            found[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / extent
    return found.tolist()


def hypervolume(values: Values, reference: Sequence[float]) -> float:
    """The volume of what is dominated, up to a reference point."""
    if not values:
        return 0.0
    gains = np.array(reference, float) - np.array(values, float)
    return _volume(gains[np.all(gains > 0, axis=1)])


def _distinct(values: Values) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Each point once in lexicographic order, where it is first, and where each value is among them."""
    points, first, place = np.unique(np.array(values, float), axis=0, return_index=True, return_inverse=True)
    return points, first, place.ravel()


class _Front:
    """Points of which none dominates another, of so many objectives, which come in lexicographic order."""

    def __init__(self, objectives: int) -> None:
        self._others = np.empty((16, objectives - 1))
        self._count = 0

    def dominates(self, point: Point) -> bool:
        """Whether one of them dominates a point that comes after them."""
        return bool(np.any(np.all(self._others[: self._count] <= point[1:], axis=1)))

    def take(self, point: Point) -> bool:
        """Add a point unless it is dominated; whether it was not."""
        if self.dominates(point):
            return False
        self._add(point)
        return True

    def _add(self, point: Point) -> None:
        if self._count == len(self._others):
            self._others = np.concatenate([self._others, np.empty_like(self._others)])
        self._others[self._count] = point[1:]
        self._count += 1


class _Stairs(_Front):
    """Of up to three objectives. Of the last two, those that matter are stairs: one rises as the other falls."""

    def __init__(self) -> None:
        self._steps: list[float] = []
        self._heights: list[float] = []

    def dominates(self, point: Point) -> bool:
        step, height = self._corner(point)
        at = bisect_right(self._steps, step)
        return at > 0 and self._heights[at - 1] <= height

    def _add(self, point: Point) -> None:
        step, height = self._corner(point)
        begin = bisect_right(self._steps, step)
        if begin and self._steps[begin - 1] == step:
            begin -= 1
        end = begin
        while end < len(self._heights) and self._heights[end] >= height:
            end += 1
        self._steps[begin:end], self._heights[begin:end] = [step], [height]

    @staticmethod
    def _corner(point: Point) -> tuple[float, float]:
        """The last two of three objectives; what a point of fewer lacks is 0."""
        _, step, height = (*point, 0.0, 0.0)[:3]
        return step, height


def _front_of(objectives: int) -> _Front:
    return _Stairs() if objectives <= 3 else _Front(objectives)


def _volume(gains: NDArray[Any]) -> float:
    """The volume of the union of boxes that begin at 0, slice by slice along the last side (HSO, While et al. 2006)."""
    if len(gains) == 0:
        return 0.0
    if gains.shape[1] == 1:
        return float(gains.max())
    gains = gains[np.argsort(-gains[:, -1], kind="stable")]
    depths = gains[:, -1] - np.append(gains[1:, -1], 0.0)
    if gains.shape[1] == 2:
        return float(np.maximum.accumulate(gains[:, 0]) @ depths)
    slices = np.flatnonzero(depths)
    return float(sum(_volume(_best(gains[: end + 1, :-1])) * depths[end] for end in slices))


def _best(gains: NDArray[Any]) -> NDArray[Any]:
    """Boxes that are in no other, where there are sides enough that this pays."""
    return gains if gains.shape[1] < 3 else gains[front([tuple(row) for row in (-gains).tolist()])]
