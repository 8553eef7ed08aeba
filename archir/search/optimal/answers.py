"""Answers: the best architectures with a proof, that there are none with the reason, or how far one is when time is out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from time import monotonic
from typing import Any

from archir.base.errors import ArchError, fail
from archir.costs.account import PEAKS
from archir.costs.optimal.optimum import Optimum, optimum
from archir.ir.graph import Constraint
from archir.language.elaboration.names.locals import latency_file
from archir.search.optimal.problem import AT_LEAST, AT_MOST, Objective, Problem, compiled
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.space import Space


@dataclass(frozen=True)
class Needed:
    """A bound of those that contradict each other, and the nearest number that would do if the others are kept; None
    where that was not found in time."""

    bound: Constraint
    nearest: int | None


@dataclass(frozen=True)
class Answer:
    """`architectures` are the best in order, with `values`; no other one is better than `bound`.

    `settled`: that is proved; with no architecture, that nothing is within the bounds, and `conflict` has the fewest of
    them that contradict each other. `proof` has multipliers and what was listed with them.
    """

    objective: Objective
    architectures: tuple[Architecture, ...]
    values: tuple[Fraction, ...]
    bound: Fraction | None
    settled: bool
    conflict: tuple[Needed, ...]
    proof: Mapping[str, Any]

    @property
    def best(self) -> Architecture:
        """The best one. Raises ArchError (A3301) if nothing is within the bounds, A3304 if nothing was found in time."""
        if self.architectures:
            return self.architectures[0]
        if self.settled:
            raise self.none()
        raise fail("A3304", "nothing within the bounds was found in time", None, "give more time: --time-limit 600")

    def none(self) -> ArchError:
        """That nothing is within the bounds."""
        texts = [one.bound.text for one in self.conflict]
        span = self.conflict[0].bound.span if self.conflict else None
        hint = "; ".join(
            f"{one.bound.cost} = {one.nearest:,}{_unit(one.bound)} would do{' with the others' if len(texts) > 1 else ''}"
            for one in self.conflict
            if one.nearest is not None
        )
        return fail("A3301", f"no architecture has {' and '.join(texts)}", span, hint or None)


def optimize(
    space: Space,
    objective: Objective,
    best: int = 1,
    fixed: Mapping[str, int] | None = None,
    seconds: float | None = None,
) -> Answer:
    """The `best` architectures of a space, in order, within its bounds on costs, with outcomes of choices fixed by path.

    Raises ArchError: A1601, A1602 (choices are too entangled), A1604 (no such cost), A3302 (a bound that is no range).
    """
    end = None if seconds is None else monotonic() + seconds

    def late() -> bool:
        return end is not None and monotonic() > end

    bounds = [one for one in space.graph.constraints if one.cost is not None]
    return _Optimizing(space.free, bounds, dict(fixed or {}), late).answer(objective, best)


class _Optimizing:
    def __init__(
        self, space: Space, bounds: Sequence[Constraint], fixed: Mapping[str, int], late: Callable[[], bool]
    ) -> None:
        self.space, self.bounds, self.fixed, self.late = space, bounds, fixed, late

    def answer(self, objective: Objective, best: int) -> Answer:
        if isinstance(objective.what, str) and objective.what in PEAKS:
            objective, extra = self._peak(objective)
        problem = compiled(self.space, objective, self.bounds, self.fixed)
        if problem.network is None:
            self.space.prove_some()
            raise fail("A0510", "no architecture satisfies the constraints and what is fixed")
        found = optimum(problem.network, problem.limits, best, self.late)
        if found.settled and not len(found.codes):
            return Answer(objective, (), (), None, True, tuple(self._conflict()), {})
        return Answer(
            objective,
            tuple(self.space.decode(row) for row in found.codes),
            tuple(problem.value(int(total)) for total in found.totals[:, 0]),
            problem.value(found.bound),
            found.settled,
            (),
            {"multipliers": list(found.proof.weights), "cutoff": found.cutoff},
        )

    def _conflict(self) -> list[Needed]:
        """The fewest bounds that contradict each other: each of them left out, there are architectures."""
        kept = list(range(len(self.bounds)))
        for one in range(len(self.bounds)):
            others = [i for i in kept if i != one]
            if others and not self._some(others):
                kept = others
        return [Needed(self.bounds[i], self._nearest(i, [j for j in kept if j != i])) for i in kept]

    def _some(self, which: Sequence[int]) -> bool:
        """Whether there may be architectures within these bounds."""
        first, *others = which
        found = self._beyond(first, others, enough=True)
        return found is None or found <= 0

    def _nearest(self, which: int, others: Sequence[int]) -> int | None:
        """The cost nearest to a bound, the others kept."""
        bound = self.bounds[which]
        if isinstance(bound.limit, int) and bound.condition is True and bound.cost not in PEAKS:
            beyond = self._beyond(which, others)
            if beyond is not None:
                at_most = bound.relation in AT_MOST and not self._ends_below(which, others, beyond)
                sign, more = (1, AT_MOST) if at_most else (-1, AT_LEAST)
                return int(bound.limit) + more[bound.relation] + sign * beyond
        return None
