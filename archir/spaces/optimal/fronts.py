"""Fronts of an objective and one or two costs: all at once where that is possible, from a table of all sums or by
following what nothing is better than; else, of two, the optimum of one, within a bound on the other that comes closer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from time import monotonic
from typing import Any

import numpy as np

from archir.costs.account import PEAKS
from archir.costs.optimal import labels
from archir.costs.optimal.grid import Grid, spread
from archir.costs.optimal.network import Network
from archir.costs.optimal.paths import TooManyPathsError
from archir.costs.tables import Codes, Numbers
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.visible import one_line
from archir.ir.graph import Constraint
from archir.spaces.architecture import Architecture, columns_of
from archir.spaces.counting import many
from archir.spaces.optimal.answers import optimize
from archir.spaces.optimal.problem import Objective, compiled, plain
from archir.spaces.space import Space
from archir.utils.frames import Framed

MOST_POINTS = 100_000
MOVED_A_SECOND, PAIRS_A_SECOND = 50_000_000, 50_000_000
"""Cells of a table that are surely moved in a second, and pairs of beginnings that are compared."""
FEW_PAIRS, MANY_PAIRS = 20_000_000, 1_000_000_000
"""Pairs that are compared before a table is made, and where it would be too large."""


@dataclass(frozen=True)
class Point:
    """An architecture of a front, by its values of the objectives."""

    architecture: Architecture
    values: tuple[Fraction, int, *tuple[int, ...]]


@dataclass(frozen=True)
class Front(Framed):
    """Points from the best of the first objective on; no architecture is better than one of them in one objective and
    as good in the others. If not `settled`, time was out, or the points were too many, before the rest was found."""

    points: tuple[Point, ...]
    settled: bool
    names: tuple[str, ...] = ()
    """Of the objectives."""

    def __repr__(self) -> str:
        rest = "" if self.settled else ", not all of them"
        return one_line(f"<Front of {' and '.join(self.names)}: {many(len(self.points), 'architecture')}{rest}>")

    def columns(self) -> dict[str, list[Any]]:
        """The points in order: values of the objectives, and choices."""
        values = {name: [plain(one.values[i]) for one in self.points] for i, name in enumerate(self.names)}
        return {**values, **columns_of([one.architecture for one in self.points])}


def front(
    space: Space,
    first: Objective,
    others: Sequence[Objective],
    points: int | None = None,
    fixed: Mapping[str, int] | None = None,
    seconds: float | None = None,
) -> Front:
    """All points of the front, or about `points` of them, spread evenly over the other objectives, which are costs.

    Raises ArchError as `optimize` does; A3301 if nothing is within the bounds; A3302 (three objectives whose sums are
    too many).
    """
    if not all(isinstance(one.what, str) for one in others):
        raise fail("A3302", "the other objectives of a front are costs", None, "name the scores first")
    found = _at_once(space, first, others, points, fixed or {}, seconds)
    if found is not None:
        return found
    if len(others) > 1:
        text = f"the front of three objectives is too large: sums of {' and '.join(str(one.what) for one in others)}"
        raise fail("A3302", f"{text} are too many to be told apart", None, "leave out one, or bound it with --where")
    return _Front(space, first, others[0], dict(fixed or {}), seconds).found(points)


def _at_once(
    space: Space,
    first: Objective,
    others: Sequence[Objective],
    points: int | None,
    fixed: Mapping[str, int],
    seconds: float | None,
) -> Front | None:
    """The front, all of it at once; None where that is too large, or of what is no sum."""
    if any(one.what in PEAKS for one in (first, *others) if isinstance(one.what, str)):
        return None
    bounds = [one for one in space.graph.constraints if one.cost is not None]
    problem = compiled(space.unbounded, first, bounds, fixed, others)
    if problem.network is None:
        return None
    limits = [*(None for _ in others), *problem.limits[len(others) :]]
    found = _listed(problem.network, len(others), limits, points, seconds)
    if found is None:
        return None
    codes, totals, whole = found
    if not len(codes):
        optimize(space, first, 1, fixed).best  # noqa: B018  (raises, and says why there is none)
    signs = [-1 if one.greatest else 1 for one in others]
    made = []
    for row, (value, *costs) in zip(codes.tolist(), totals.tolist(), strict=True):
        one, *more = (sign * cost for sign, cost in zip(signs, costs, strict=False))
        made.append(Point(space.unbounded.decode(row), (problem.value(value), one, *more)))
    return Front(tuple(made), whole)


def _listed(
    network: Network, axes: int, limits: Sequence[int | None], points: int | None, seconds: float | None
) -> tuple[Codes, Numbers, bool] | None:
    """The codes and sums of points, and whether they are all, or as many as are wanted; None if there are too many."""
    few, many = (FEW_PAIRS, MANY_PAIRS) if seconds is None else (seconds * PAIRS_A_SECOND / 4, 0)
    try:
        return _followed(network, axes, limits, points, few)
    except TooManyPathsError:
        grid = Grid(network)
    if grid.affordable and (seconds is None or grid.work <= seconds * MOVED_A_SECOND / 2):
        cells = grid.front(axes, limits)
        rows = spread(cells.totals[:, : axes + 1], min(points or MOST_POINTS, MOST_POINTS))
        return grid.codes(cells.places[rows]), cells.totals[rows], points is not None or len(rows) == len(cells.totals)
    try:
        return _followed(network, axes, limits, points, many)
    except TooManyPathsError:
        return None


def _followed(
    network: Network, axes: int, limits: Sequence[int | None], points: int | None, compared: float
) -> tuple[Codes, Numbers, bool]:
    codes, totals = labels.front(network, axes, limits, compared)
    rows = spread(totals[:, : axes + 1], points or len(totals))
    return codes[rows], totals[rows], True


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
