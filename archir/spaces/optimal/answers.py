"""Answers: the best architectures with a proof; that there are none, and why; or, out of time, how far one may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import monotonic
from typing import Any

import numpy as np

from archir.costs.account import PEAKS
from archir.costs.optimal.bounded import AT_LEAST, AT_MOST
from archir.costs.optimal.optimum import Optimum, optimum
from archir.diagnostics.errors import ArchError, fail
from archir.ir.graph import Constraint
from archir.language.elaboration.locals import latency_file
from archir.spaces.architecture import Architecture, columns_of
from archir.spaces.optimal.problem import Objective, Problem, compiled, plain, shown
from archir.spaces.space import Space
from archir.utils.frames import Framed

_ANY = "params"
"""A cost that every space has."""


@dataclass(frozen=True)
class Needed:
    """A bound of those that contradict each other, and the nearest number that would do if the others are kept; None
    where that was not found in time."""

    bound: Constraint
    nearest: int | None


@dataclass(frozen=True)
class Answer(Framed):
    """`architectures` are the best in order, with `values`; no other one is better than `bound`.

    `settled`: that is proved; with no architecture, that nothing is within the bounds, and `conflict` has some of them
    that contradict each other: if `fewest`, without any one of them there are architectures, else time was out before
    that was known.
    """

    objective: Objective
    architectures: tuple[Architecture, ...]
    values: tuple[Fraction, ...]
    bound: Fraction | None
    settled: bool
    conflict: tuple[Needed, ...]
    fewest: bool = True

    def __repr__(self) -> str:
        if not self.architectures:
            return f"<Answer: {'nothing is within the bounds' if self.settled else 'nothing was found in time'}>"
        known = "proved" if self.settled else f"none is better than {self.bound}"
        best = f"{'greatest' if self.objective.greatest else 'least'} {self.objective.name} = {shown(self.values[0])}"
        others = f", {len(self.architectures):,} architectures" if len(self.architectures) > 1 else ""
        return f"<Answer: {best} ({known}){others}>"

    def columns(self) -> dict[str, list[Any]]:
        """The architectures in order: the objective's value and choices."""
        return {self.objective.name: list(map(plain, self.values)), **columns_of(self.architectures)}

    @property
    def best(self) -> Architecture:
        """The best one. Raises ArchError: A3301 (nothing is within the bounds), A3304 (nothing was found in time)."""
        if self.architectures:
            return self.architectures[0]
        if self.settled:
            raise self.none()
        raise fail("A3304", "nothing within the bounds was found in time", None, "give more time: --time-limit 600")

    def none(self) -> ArchError:
        """That nothing is within the bounds."""
        texts = [one.bound.text for one in self.conflict]
        span = self.conflict[0].bound.span if self.conflict else None
        others = ", if the others stay" if len(texts) > 1 else ""
        hint = "; ".join(
            f"{one.bound.cost} = {one.nearest:,}{_unit(one.bound)} would do{others}"
            for one in self.conflict
            if one.nearest is not None
        )
        if not self.fewest:
            hint = "time was out before it was known whether fewer of these contradict each other"
        return fail("A3301", f"no architecture has {' and '.join(texts)}", span, hint or None)


def optimize(
    space: Space,
    objective: Objective,
    best: int = 1,
    fixed: Mapping[str, int] | None = None,
    seconds: float | None = None,
) -> Answer:
    """The `best` architectures of a space, in order, within its bounds on costs; outcomes are fixed by path.

    Raises ArchError: A1601, A1602 (choices are too entangled), A1604 (no such cost), A3302 (a bound that is no range).
    """
    end = None if seconds is None else monotonic() + seconds

    def late() -> bool:
        return end is not None and monotonic() > end

    bounds = [one for one in space.graph.constraints if one.cost is not None]
    return _Optimizing(space.unbounded, bounds, fixed or {}, late).answer(objective, best)


class _Optimizing:
    def __init__(
        self, space: Space, bounds: Sequence[Constraint], fixed: Mapping[str, int], late: Callable[[], bool]
    ) -> None:
        self.space, self.bounds, self.fixed, self.late = space, tuple(bounds), fixed, late

    def answer(self, objective: Objective, best: int) -> Answer:
        """The answer; its bounds are this one's."""
        if isinstance(objective.what, str) and objective.what in PEAKS:
            return self._of_peak(objective, best)
        problem = self._problem(objective, self.bounds)
        assert problem.network is not None
        found = optimum(problem.network, problem.limits, best, self.late)
        if found.settled and not len(found.codes):
            return Answer(objective, (), (), None, True, *self._conflict())
        values = tuple(problem.value(int(total)) for total in found.totals[:, 0])
        return Answer(objective, self._decoded(found), values, problem.value(found.bound), found.settled, ())

    def _problem(self, objective: Objective, bounds: Sequence[Constraint]) -> Problem:
        problem = compiled(self.space, objective, bounds, self.fixed)
        if problem.network is None:
            self.space.prove_some()
            raise fail("A0510", "no architecture satisfies the constraints and has what is fixed")
        return problem

    def _decoded(self, found: Optimum) -> tuple[Architecture, ...]:
        return tuple(self.space.decode(row) for row in found.codes)

    def _within(self, bounds: Sequence[Constraint]) -> Optimum:
        """An architecture within bounds, of which there is one at least: the first sum is at most what it may be, or is
        the least."""
        problem = self._problem(Objective(_ANY), bounds)
        assert problem.network is not None
        limit, *limits = problem.limits
        return optimum(problem.network.without_objective, limits, 1, self.late, enough=limit)

    def _some(self, bounds: Sequence[Constraint]) -> bool | None:
        """Whether there are architectures within bounds; None where that is not known in time."""
        found, limit = self._within(bounds), self._problem(Objective(_ANY), bounds).limits[0]
        if found.value is not None and found.value <= limit:
            return True
        return False if found.settled else None

    def _conflict(self) -> tuple[tuple[Needed, ...], bool]:
        """Bounds that contradict each other, and whether they are the fewest: each of them left out, there are
        architectures."""
        kept, fewest = list(self.bounds), True
        for bound in self.bounds:
            others = [one for one in kept if one is not bound]
            some = self._some(others) if others else True
            if some is False:
                kept = others
            fewest = fewest and some is not None
        needed = (Needed(one, self._nearest(one, [other for other in kept if other is not one])) for one in kept)
        return tuple(needed), fewest

    def _nearest(self, bound: Constraint, others: Sequence[Constraint]) -> int | None:
        """The cost nearest to a bound, the others kept; None if that is not known in time."""
        if bound.condition is not True or not isinstance(bound.limit, int):
            return None
        found: list[int] = []
        sides = [side for side in (AT_MOST, AT_LEAST) if bound.relation in side]
        for side in sides:
            greatest = side is AT_LEAST
            beyond = [replace(bound, relation="<=" if greatest else ">=")] if len(sides) > 1 else []
            inner = _Optimizing(self.space, [*others, *beyond], self.fixed, self.late)
            answer = inner.one(Objective(str(bound.cost), greatest))
            if answer is not None:
                found.append(answer)
        return min(found, key=lambda value: abs(value - bound.limit), default=None)

    def one(self, objective: Objective) -> int | None:
        """The best value of a cost; None if there is none, or it is not known in time."""
        if objective.what in PEAKS:
            peak = self._peak(objective)
            return None if peak is None else peak[0]
        problem = self._problem(objective, self.bounds)
        assert problem.network is not None
        found = optimum(problem.network, problem.limits, 1, self.late)
        return int(problem.value(found.value)) if found.settled and found.value is not None else None

    def _of_peak(self, objective: Objective, best: int) -> Answer:
        if best > 1:
            raise fail("A3302", f"of `{objective.what}`, which is no sum, only the best one is found: leave out --best")
        if self.bounds and self._some(self.bounds) is False:
            return Answer(objective, (), (), None, True, *self._conflict())
        found = self._peak(objective)
        if found is None:
            low, high = self.space.account.limits(str(objective.what))
            return Answer(objective, (), (), Fraction(high if objective.greatest else low), False, ())
        value, architecture = Fraction(found[0]), found[1]
        return Answer(objective, (architecture,), (value,), value, True, ())

    def _peak(self, objective: Objective) -> tuple[int, Architecture] | None:
        """The least number that a maximum can be kept within, by halving what is left of those that it can be."""
        cost = str(objective.what)
        table = self.space.account.peak_table(cost)
        numbers = sorted({int(table.constant[0]), *(int(one) for f in table.factors for one in np.unique(f.table))})
        numbers = [number for number in numbers if number >= table.constant[0]]
        numbers = numbers[::-1] if objective.greatest else numbers
        low, high, found = 0, len(numbers) - 1, None
        while low <= high:
            middle = (low + high) // 2
            relation = ">=" if objective.greatest else "<="
            bounds = [Constraint(True, cost=cost, relation=relation, limit=numbers[middle]), *self.bounds]
            some = self._some(bounds)
            if some is None:
                return None
            if some:
                found = self._decoded(self._within(bounds))[0]
                high = middle - 1
            else:
                low = middle + 1
        if found is None:
            return None
        codes = np.array([found.codes], np.int16)
        return int(self.space.account.at(codes, [cost])[cost][0]), found


def _unit(bound: Constraint) -> str:
    return "" if latency_file(str(bound.cost)) is None else " ns"
