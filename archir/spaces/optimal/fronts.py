"""Pareto fronts of an objective and one or two costs.

If affordable, the whole front is computed at once: from a table of all sums, or by label setting, which keeps only
non-dominated partial sums. Otherwise a front of two objectives is traced point by point: each point is the optimum of
the first objective within a tighter bound on the second.
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
from archir.costs.optimal.grid import Grid, evenly_spaced
from archir.costs.optimal.network import Network
from archir.costs.optimal.paths import TooManyPathsError
from archir.costs.tables import Codes, Numbers
from archir.diagnostics.errors import exceeds, fail
from archir.diagnostics.escaping import escape_to_line
from archir.ir.graph import Constraint
from archir.spaces.architecture import Architecture, choice_columns
from archir.spaces.optimal.answers import Answer, optimize
from archir.spaces.optimal.problem import Objective, as_number, compile_problem
from archir.spaces.space import Space
from archir.utils.counts import count_noun
from archir.utils.frames import Tabular

MAX_POINTS = 100_000
"""Maximum number of points in a front."""
CELLS_PER_SECOND, PAIRS_PER_SECOND = 50_000_000, 50_000_000
"""Conservative estimates of speed: table cells moved per second, and pairs of labels compared per second."""
MAX_PAIRS_FIRST, MAX_PAIRS = 20_000_000, 1_000_000_000
"""Maximum numbers of pairs of labels to compare: before a table is tried, and after the table proved too large."""


@dataclass(frozen=True)
class Point:
    """An architecture on the front, with its values of the objectives."""

    architecture: Architecture
    values: tuple[Fraction, int, *tuple[int, ...]]


@dataclass(frozen=True)
class Front(Tabular):
    """Pareto front: points sorted from best to worst in the first objective.

    No architecture is better than a point in one objective and at least as good in the others. `complete` is False if
    the time limit or the maximum number of points was reached before all points were found.
    """

    points: tuple[Point, ...]
    complete: bool
    names: tuple[str, ...] = ()
    """Names of the objectives."""

    def __repr__(self) -> str:
        suffix = "" if self.complete else ", not all of them"
        return escape_to_line(
            f"<Front of {' and '.join(self.names)}: {count_noun(len(self.points), 'architecture')}{suffix}>"
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return the points in order, as columns: the values of the objectives, and the choices."""
        values = {name: [as_number(point.values[i]) for point in self.points] for i, name in enumerate(self.names)}
        return {**values, **choice_columns([point.architecture for point in self.points])}


def front(
    space: Space,
    first: Objective,
    others: Sequence[Objective],
    points: int | None = None,
    fixed: Mapping[str, int] | None = None,
    seconds: float | None = None,
) -> Front:
    """Return the Pareto front, or about `points` of its points, spread evenly over the other objectives.

    The objectives `others` must be costs. Raises ArchError as `optimize` does; A3301 if no architecture is within the
    bounds; A3302 if three objectives have too many different totals.
    """
    if not all(isinstance(objective.quantity, str) for objective in others):
        raise exceeds("A3302", "only the first objective of a front can be scores", None, "name the scores first")
    end = None if seconds is None else monotonic() + seconds
    direct = _direct_front(space, first, others, points, fixed or {}, end)
    if direct is not None:
        return direct
    if len(others) > 1:
        text = (
            "the front of three objectives is too large: "
            f"{' and '.join(str(objective.quantity) for objective in others)}"
        )
        hint = "leave one out, or bound it with --where"
        raise exceeds("A3302", f"{text} have too many different totals", None, hint)
    return _FrontTrace(space, first, others[0], dict(fixed or {}), end).trace(points)


def _direct_front(
    space: Space,
    first: Objective,
    others: Sequence[Objective],
    points: int | None,
    fixed: Mapping[str, int],
    end: float | None,
) -> Front | None:
    """Return the front, computed at once before the time `end`; None if that is too expensive or if an objective is not
    a sum."""
    if any(item.quantity in PEAKS for item in (first, *others) if isinstance(item.quantity, str)):
        return None
    bounds = [item for item in space.graph.constraints if item.cost is not None]
    problem = compile_problem(space.unbounded, first, bounds, fixed, others)
    if problem.network is None:
        return None
    limits = [*(None for _ in others), *problem.limits[len(others) :]]
    rows = _front_rows(problem.network, len(others), limits, points, _time_left(end))
    if rows is None:
        return None
    codes, totals, is_complete = rows
    if not len(codes):
        answer = optimize(space, first, 1, fixed, _time_left(end))  # says which bounds conflict, if there is time
        raise answer.infeasible_error() if answer.conflict else fail("A3301", "no architecture is within the bounds")
    signs = [-1 if item.maximize else 1 for item in others]
    front_points = []
    for row, (value, *costs) in zip(codes.tolist(), totals.tolist(), strict=True):
        item, *more = (sign * cost for sign, cost in zip(signs, costs, strict=False))
        front_points.append(Point(space.unbounded.decode(row), (problem.value(value), item, *more)))
    return Front(tuple(front_points), is_complete)


def _time_left(end: float | None) -> float | None:
    """Return the seconds until the time `end`; None without a limit."""
    return None if end is None else max(0.0, end - monotonic())


def _front_rows(
    network: Network, axes: int, limits: Sequence[int | None], points: int | None, seconds: float | None
) -> tuple[Codes, Numbers, bool] | None:
    """Return the codes and totals of points, and whether all points (or as many as requested) were found.

    None if the computation is too expensive.
    """
    first_limit, last_limit = (MAX_PAIRS_FIRST, MAX_PAIRS) if seconds is None else (seconds * PAIRS_PER_SECOND / 4, 0)
    try:
        return _label_rows(network, axes, limits, points, first_limit)
    except TooManyPathsError:
        grid = Grid(network)
    if grid.is_affordable and (seconds is None or grid.update_count <= seconds * CELLS_PER_SECOND / 2):
        cells = grid.front(axes, limits)
        rows = evenly_spaced(cells.totals[:, : axes + 1], min(points or MAX_POINTS, MAX_POINTS))
        return grid.codes(cells.indices[rows]), cells.totals[rows], points is not None or len(rows) == len(cells.totals)
    try:
        return _label_rows(network, axes, limits, points, last_limit)
    except TooManyPathsError:
        return None


def _label_rows(
    network: Network, axes: int, limits: Sequence[int | None], points: int | None, max_pairs: float
) -> tuple[Codes, Numbers, bool]:
    """Return the codes and totals of the front, by label setting.

    Raises TooManyPathsError if more than `max_pairs` pairs of labels would be compared.
    """
    codes, totals = labels.front(network, axes, limits, max_pairs)
    rows = evenly_spaced(totals[:, : axes + 1], points or len(totals))
    return codes[rows], totals[rows], True


class _FrontTrace:
    """Point-by-point tracing of a front of two objectives."""

    def __init__(
        self, space: Space, first: Objective, second: Objective, fixed: Mapping[str, int], end: float | None
    ) -> None:
        self.space, self.first, self.second, self.fixed = space, first, second, fixed
        self.cost, self.sign = str(second.quantity), -1 if second.maximize else 1
        self.end = end

    def trace(self, points: int | None) -> Front:
        """Return the front, point by point.

        A point that equals the previous one in the first objective is better in the second, and replaces it.
        """
        answer = self._optimize(self.first, None)
        if not answer.proved:
            return Front((), False)
        traced, limits = [self._point(answer)], None
        if points is not None:
            last = self._optimize(self.second, None)
            if not last.proved:
                return Front(tuple(traced), False)
            limits = _spread_limits(traced[0].values[1], int(last.values[0]), points)
        while len(traced) < MAX_POINTS:
            limit = traced[-1].values[1] - self.sign
            if limits is not None:
                while limits and self.sign * limits[0] > self.sign * limit:
                    limits.pop(0)
                if not limits:
                    break
                limit = limits.pop(0)
            answer = self._optimize(self.first, limit)
            if not answer.proved:
                return Front(tuple(traced), False)
            if not answer.architectures:
                break
            point = self._point(answer)
            if traced[-1].values[0] == point.values[0]:
                traced.pop()
            traced.append(point)
        return Front(tuple(traced), len(traced) < MAX_POINTS)

    def _optimize(self, objective: Objective, limit: int | None) -> Answer:
        """Return the answer for an objective within the time left and, unless `limit` is None, a limit on the second
        cost."""
        graph = copy(self.space.graph)
        if limit is not None:
            relation = ">=" if self.second.maximize else "<="
            text = f"{self.cost} {relation} {limit}"
            bound = Constraint(True, text=text, cost=self.cost, relation=relation, limit=limit)
            graph.constraints = [*graph.constraints, bound]
        return optimize(Space(graph), objective, 1, self.fixed, _time_left(self.end), explain=limit is None)

    def _point(self, answer: Answer) -> Point:
        """Return the point of an answer. Raises ArchError (A3301) if no architecture is within the bounds."""
        codes = np.array([answer.best.codes], np.int16)
        return Point(answer.best, (answer.values[0], int(self.space.account.at(codes, [self.cost])[self.cost][0])))


def _spread_limits(first: int, last: int, points: int) -> list[int]:
    """Return evenly spaced limits on the second cost, without the first one.

    `first` is the second cost of the architecture that is optimal in the first objective, `last` the optimum of the
    second cost.
    """
    return [round(number) for number in np.linspace(first, last, max(points, 2)).tolist()][1:]
