"""Answers of the optimiser: the best architectures with a proof, or bounds that contradict each other.

If the time limit is reached, an answer has the best architectures found so far, and a bound on the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import monotonic
from typing import Any

import numpy as np

from archir.costs.account import PEAKS
from archir.costs.optimal.bounded import LOWER_OFFSETS, UPPER_OFFSETS
from archir.costs.optimal.optimum import Optimum, optimum
from archir.costs.tables import MAX_SUM
from archir.diagnostics.errors import ArchError, exceeds, fail
from archir.ir.graph import Constraint
from archir.language.elaboration.cost_names import latency_file
from archir.spaces.architecture import Architecture, choice_columns
from archir.spaces.optimal.problem import Objective, Problem, as_number, compile_problem, format_value
from archir.spaces.space import Space
from archir.utils.frames import Tabular

_ANY = "params"
"""A cost that every space has; the objective if only feasibility matters."""


@dataclass(frozen=True)
class ConflictingBound:
    """A bound that contradicts other bounds, and the nearest feasible cost.

    This is the feasible cost nearest to the bound's limit if all other bounds are kept; it is None if it was not found
    within the time limit.
    """

    bound: Constraint
    nearest_cost: int | None


@dataclass(frozen=True)
class Answer(Tabular):
    """The best `architectures` in order, with their `values`; no other architecture is better than `bound`.

    `proved` is True if the answer is proved to be optimal. If it is proved that no architecture is within the bounds,
    `architectures` is empty, and `conflict` has bounds that contradict each other. `is_minimal` is True if this
    conflict is minimal: without any one of its bounds, some architecture is within the others. `is_minimal` is False if
    that was not established within the time limit.
    """

    objective: Objective
    architectures: tuple[Architecture, ...]
    values: tuple[Fraction, ...]
    bound: Fraction | None
    proved: bool
    conflict: tuple[ConflictingBound, ...]
    is_minimal: bool = True

    def __repr__(self) -> str:
        if not self.architectures:
            return f"<Answer: {'nothing is within the bounds' if self.proved else 'nothing was found in time'}>"
        status = "proved" if self.proved else f"none is better than {self.bound}"
        best = (
            f"{'greatest' if self.objective.maximize else 'least'} {self.objective.name} = "
            f"{format_value(self.values[0])}"
        )
        others = f", {len(self.architectures):,} architectures" if len(self.architectures) > 1 else ""
        return f"<Answer: {best} ({status}){others}>"

    def columns(self) -> dict[str, list[Any]]:
        """Return the architectures in order, as columns: the objective's value, and the choices."""
        return {self.objective.name: list(map(as_number, self.values)), **choice_columns(self.architectures)}

    @property
    def best(self) -> Architecture:
        """The best architecture.

        Raises ArchError: A3301 (no architecture is within the bounds), A3304 (none was found within the time limit).
        """
        if self.architectures:
            return self.architectures[0]
        if self.proved:
            raise self.infeasible_error()
        raise fail("A3304", "no architecture within the bounds was found in time", None, "give more: --time-limit 600")

    def infeasible_error(self) -> ArchError:
        """Return the error that no architecture is within the bounds."""
        texts = [conflicting.bound.text for conflicting in self.conflict]
        span = self.conflict[0].bound.span if self.conflict else None
        others = ", if the others stay" if len(texts) > 1 else ""
        hint = "; ".join(
            f"{conflicting.bound.cost} = {conflicting.nearest_cost:,}{_unit(conflicting.bound)} would do{others}"
            for conflicting in self.conflict
            if conflicting.nearest_cost is not None
        )
        if not self.is_minimal:
            hint = "time was out before it was known whether a subset of these bounds already has no architecture"
        return fail("A3301", f"no architecture has {' and '.join(texts)}", span, hint or None)


def optimize(
    space: Space,
    objective: Objective,
    best: int = 1,
    fixed: Mapping[str, int] | None = None,
    seconds: float | None = None,
    explain: bool = True,
) -> Answer:
    """Return the `best` best architectures of a space within its bounds on costs, in order.

    `fixed` has outcomes of choices by path, `seconds` is the time limit. Unless `explain` is set, `conflict` of the
    result is empty even if no architecture is within the bounds. Raises ArchError: A1601, A1602 (a size limit
    is exceeded), A1604 (unknown cost), A3302 (optimisation does not support a bound of this form).
    """
    end = None if seconds is None else monotonic() + seconds

    def is_late() -> bool:
        return end is not None and monotonic() > end

    bounds = [constraint for constraint in space.graph.constraints if constraint.cost is not None]
    return _Optimizing(space.unbounded, bounds, fixed or {}, is_late).answer(objective, best, explain)


class _Optimizing:
    """Optimiser for one space and its bounds on costs."""

    def __init__(
        self, space: Space, bounds: Sequence[Constraint], fixed: Mapping[str, int], is_late: Callable[[], bool]
    ) -> None:
        self.space, self.bounds, self.fixed, self.is_late = space, tuple(bounds), fixed, is_late

    def answer(self, objective: Objective, best: int, explain: bool) -> Answer:
        """Return the answer for an objective; with `explain`, also the bounds that contradict each other."""
        if isinstance(objective.quantity, str) and objective.quantity in PEAKS:
            return self._of_peak(objective, best, explain)
        problem = self._problem(objective, self.bounds)
        assert problem.network is not None
        result = optimum(problem.network, problem.limits, best, self.is_late)
        if result.is_proved and not len(result.codes):
            return self._infeasible(objective, explain)
        values = tuple(problem.value(int(total)) for total in result.totals[:, 0])
        return Answer(objective, self._decode(result), values, problem.value(result.bound), result.is_proved, ())

    def _problem(self, objective: Objective, bounds: Sequence[Constraint]) -> Problem:
        """Compile the optimisation problem.

        Raises ArchError (A0510) if no architecture satisfies the constraints on choices.
        """
        problem = compile_problem(self.space, objective, bounds, self.fixed)
        if problem.network is None:
            self.space.check_satisfiable()
            raise fail("A0510", "no architecture with the fixed outcomes satisfies the constraints")
        return problem

    def _decode(self, result: Optimum) -> tuple[Architecture, ...]:
        """Return the architectures of an optimum."""
        return tuple(self.space.decode(row) for row in result.codes)

    def _search(self, bounds: Sequence[Constraint]) -> tuple[Optimum, bool | None]:
        """Search for an architecture within bounds; return the result, and whether there is such an architecture.

        None if this is not decided within the time limit. The search minimises the sum on which the first bound is set,
        within the other bounds. It stops as soon as the sum satisfies the first bound.
        """
        problem = self._problem(Objective(_ANY), bounds)
        assert problem.network is not None
        network = problem.network.without_objective if problem.limits else problem.network
        limit, *limits = problem.limits or (MAX_SUM,)  # no limits: every architecture is within the bounds
        result = optimum(network, limits, 1, self.is_late, target=limit)
        if result.value is not None and result.value <= limit:
            return result, True
        return result, False if result.is_proved else None

    def _infeasible(self, objective: Objective, explain: bool) -> Answer:
        """Return the answer that no architecture is within the bounds."""
        conflict, is_minimal = self._conflict() if explain else ((), True)
        return Answer(objective, (), (), None, True, conflict, is_minimal)

    def _conflict(self) -> tuple[tuple[ConflictingBound, ...], bool]:
        """Return bounds that contradict each other, and whether they are known to be minimal.

        They are minimal if, without any one of them, some architecture is within the others.
        """
        kept, is_minimal = list(self.bounds), True
        for bound in self.bounds:
            others = [candidate for candidate in kept if candidate is not bound]
            is_feasible = self._search(others)[1] if others else True
            if is_feasible is False:
                kept = others
            is_minimal = is_minimal and is_feasible is not None
        needed = (
            ConflictingBound(
                candidate, self._nearest_cost(candidate, [other for other in kept if other is not candidate])
            )
            for candidate in kept
        )
        return tuple(needed), is_minimal

    def _nearest_cost(self, bound: Constraint, others: Sequence[Constraint]) -> int | None:
        """Return the feasible cost that is nearest to the limit of a bound if the bounds `others` are kept.

        Returns None if it is not found within the time limit.
        """
        if bound.condition is not True or not isinstance(bound.limit, int):
            return None
        costs: list[int] = []
        sides = [side for side in (UPPER_OFFSETS, LOWER_OFFSETS) if bound.relation in side]
        for side in sides:
            maximize = side is LOWER_OFFSETS
            beyond = [replace(bound, relation="<=" if maximize else ">=")] if len(sides) > 1 else []
            inner = _Optimizing(self.space, [*others, *beyond], self.fixed, self.is_late)
            answer = inner.best_cost(Objective(str(bound.cost), maximize))
            if answer is not None:
                costs.append(answer)
        return min(costs, key=lambda value: abs(value - bound.limit), default=None)

    def best_cost(self, objective: Objective) -> int | None:
        """Return the best value of a cost.

        None if there is no architecture, or if it is not found within the time limit.
        """
        if objective.quantity in PEAKS:
            peak = self._peak(objective)
            return None if peak is None else peak[0]
        problem = self._problem(objective, self.bounds)
        assert problem.network is not None
        result = optimum(problem.network, problem.limits, 1, self.is_late)
        return int(problem.value(result.value)) if result.is_proved and result.value is not None else None

    def _of_peak(self, objective: Objective, best: int, explain: bool) -> Answer:
        """Return the answer for an objective that is a maximum over nodes instead of a sum."""
        if best > 1:
            text = f"`{objective.quantity}` is not a sum, so that only the best architecture can be found"
            raise exceeds("A3302", text, None, "leave out --best")
        if self.bounds and self._search(self.bounds)[1] is False:
            return self._infeasible(objective, explain)
        peak = self._peak(objective)
        if peak is None:
            low, high = self.space.account.limits(str(objective.quantity))
            return Answer(objective, (), (), Fraction(high if objective.maximize else low), False, ())
        value, architecture = Fraction(peak[0]), peak[1]
        return Answer(objective, (architecture,), (value,), value, True, ())

    def _peak(self, objective: Objective) -> tuple[int, Architecture] | None:
        """Return the best value of a maximum, and its architecture, by bisection over all possible values.

        None if this takes more than the time limit.
        """
        cost = str(objective.quantity)
        table = self.space.account.peak_table(cost)
        numbers = sorted({int(table.constant[0]), *(int(peak) for f in table.factors for peak in np.unique(f.table))})
        numbers = [number for number in numbers if number >= table.constant[0]]
        numbers = numbers[::-1] if objective.maximize else numbers
        low, high, architecture = 0, len(numbers) - 1, None
        while low <= high:
            middle = (low + high) // 2
            relation = ">=" if objective.maximize else "<="
            bounds = [Constraint(True, cost=cost, relation=relation, limit=numbers[middle]), *self.bounds]
            result, is_feasible = self._search(bounds)
            if is_feasible is None:
                return None
            if is_feasible:
                architecture = self._decode(result)[0]
                high = middle - 1
            else:
                low = middle + 1
        if architecture is None:
            return None
        codes = np.array([architecture.codes], np.int16)
        return int(self.space.account.at(codes, [cost])[cost][0]), architecture


def _unit(bound: Constraint) -> str:
    """Return the unit of a bounded cost as a suffix: " ns" for latencies, else empty."""
    return "" if latency_file(str(bound.cost)) is None else " ns"
