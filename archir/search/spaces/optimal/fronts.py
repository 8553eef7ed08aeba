"""Fronts of two objectives: the optimum of one, within a bound on the other that comes closer and closer."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from time import monotonic

import numpy as np

from archir.base.errors import ArchError, fail
from archir.ir.graph import Constraint
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.optimal.answers import optimize
from archir.search.spaces.optimal.problem import Objective
from archir.search.spaces.space import Space

MOST_POINTS = 100_000


@dataclass(frozen=True)
class Point:
    """An architecture of a front, by its values of the first objective and of the second."""

    architecture: Architecture
    values: tuple[Fraction, int]


@dataclass(frozen=True)
class Front:
    """Points from the best of the first objective on; no architecture is better than one of them in one objective and
    as good in the other. If not `settled`, time was out, or the points were too many, before the rest was found."""

    points: tuple[Point, ...]
    settled: bool


def front(
    space: Space,
    first: Objective,
    second: Objective,
    points: int | None = None,
    fixed: Mapping[str, int] | None = None,
    seconds: float | None = None,
) -> Front:
    """All points of the front, or about `points` of them, spread evenly over the second objective, which is a cost.

    Raises ArchError as `optimize` does; A3301 if nothing is within the bounds.
    """
    if not isinstance(second.what, str):
        raise fail("A3302", "the second objective of a front is a cost", None, "name the scores first")
    return _Front(space, first, second, dict(fixed or {}), seconds).found(points)


class _Front:
    def __init__(
        self, space: Space, first: Objective, second: Objective, fixed: Mapping[str, int], seconds: float | None
    ) -> None:
        self.space, self.first, self.second, self.fixed = space, first, second, fixed
        self.cost, self.sign = str(second.what), -1 if second.greatest else 1
        self.end = None if seconds is None else monotonic() + seconds

    def found(self, points: int | None) -> Front:
        """The front. An answer that is as good as the one before, at a lesser cost, takes its place."""
        best = self._next(None)
        if best is None:
            return Front((), False)
        found, limits = [best], None if points is None else self._spread(best, points)
        while len(found) < MOST_POINTS:
            limit = found[-1].values[1] - self.sign
            if limits is not None:
                while limits and self.sign * limits[0] > self.sign * limit:
                    limits.pop(0)
                if not limits:
                    break
                limit = limits.pop(0)
            try:
                one = self._next(limit)
            except ArchError as error:
                if error.diagnostics[0].code == "A3301":
                    break
                raise
            if one is None:
                return Front(tuple(found), False)
            if found[-1].values[0] == one.values[0]:
                found.pop()
            found.append(one)
        return Front(tuple(found), len(found) < MOST_POINTS)

    def _next(self, limit: int | None) -> Point | None:
        """The best architecture with the second cost within a limit; None if time is out."""
        graph = copy(self.space.graph)
        if limit is not None:
            relation = ">=" if self.second.greatest else "<="
            text = f"{self.cost} {relation} {limit}"
            bound = Constraint(True, text=text, cost=self.cost, relation=relation, limit=limit)
            graph.constraints = [*graph.constraints, bound]
        left = None if self.end is None else self.end - monotonic()
        answer = optimize(Space(graph), self.first, 1, self.fixed, left)
        if not answer.settled:
            return None
        codes = np.array([answer.best.codes], np.int16)
        return Point(answer.best, (answer.values[0], int(self.space.account.at(codes, [self.cost])[self.cost][0])))

    def _spread(self, best: Point, points: int) -> list[int]:
        """Limits of the second cost, as far apart as each other, from the best of the first objective to the least."""
        answer = optimize(self.space, self.second, 1, self.fixed)
        ends = best.values[1], int(answer.values[0])
        return [round(number) for number in np.linspace(*ends, max(points, 2)).tolist()][1:]
