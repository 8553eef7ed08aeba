"""Minimum total of diagrams by variable elimination: a proved lower bound, and an architecture close to it.

Choices are eliminated from the last to the first: all diagrams that depend on the choice are added, and the minimum
over its outcomes becomes a new diagram. If a sum becomes too large, it is kept as several parts, whose minima are
added. These add up to at most the minimum of the sum, so the result is a lower bound (mini-buckets: Dechter and Rish
2003). It is exact if no sum was split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import inf, isinf

from archir.diagnostics.work import current_budget
from archir.diagrams.conditions import disjoin
from archir.diagrams.diagram import (
    Choice,
    Diagram,
    DiagramSizeError,
    Value,
    fold,
    leaves,
    make_diagram,
    outcome_in,
    support,
    value_at,
    varies,
)
from archir.diagrams.lifting import lift
from archir.ir.graph import Decision

MAX_SUM_NODES = 4_000
"""Maximum number of diagram nodes that the computation of one sum visits."""
MAX_TOTAL_NODES = 1_000_000
"""Maximum number of diagram nodes that all sums together visit; beyond it, no more sums are computed."""
WORK_FRACTION = 1 / 20
"""Fraction of the remaining work budget that the computation of sums may use."""


@dataclass(frozen=True)
class LowerBound:
    """Lower bound of all totals, and the assignment (outcomes by path) that was found by following the bound.

    `outcomes` is None if following the bound led to no assignment that satisfies the conditions.
    """

    bound: int
    exact: bool
    """Whether the bound is the minimum, because no sum was split."""
    outcomes: Mapping[str, int] | None


def activity_conditions(conditions: Sequence[Value], order: Sequence[Decision]) -> list[Value]:
    """Return the conditions, extended such that each tested choice that may be inactive then has outcome 0."""
    tested = set(support(*conditions))
    absent = [
        disjoin(decision.active, outcome_in(decision.choice, [0]))
        for decision in order
        if decision.active is not True and decision.choice in tested
    ]
    return [*conditions, *absent]


def minimize(
    terms: Sequence[Value], conditions: Sequence[Value], order: Sequence[Decision], max_nodes: int = MAX_SUM_NODES
) -> LowerBound | None:
    """Return the minimum of the sum of terms over assignments that satisfy all conditions.

    Returns None if it is proved that no assignment satisfies them. Each sum visits at most `max_nodes` diagram nodes.
    """
    return _Elimination(terms, conditions, order, max_nodes).result()


class _Elimination:
    """State of one elimination: buckets of diagrams, each with the diagrams whose last choice is the same."""

    def __init__(
        self, terms: Sequence[Value], conditions: Sequence[Value], order: Sequence[Decision], max_nodes: int
    ) -> None:
        """Put the terms and the conditions (as costs 0 or infinity) into the buckets of their last choices."""
        self.max_nodes, self.work = max_nodes, 0
        self.work_floor = current_budget().left * (1 - WORK_FRACTION)
        self.exact = True
        self.order = order
        self.constant: float = 0
        self.pending: dict[Choice, list[Value]] = {}
        self.buckets: dict[Choice, list[Value]] = {}
        for condition in activity_conditions(conditions, order):
            self._add_to_bucket(lift(_penalty, condition))
        terms_by_choices: dict[tuple[Choice, ...], list[Value]] = {}
        for term in terms:
            terms_by_choices.setdefault(tuple(support(term)), []).append(term)
        for values in terms_by_choices.values():
            for value in self._sum_parts(values):
                self._add_to_bucket(value)

    def result(self) -> LowerBound | None:
        """Eliminate all choices, last to first, then follow the bound from the first choice to the last."""
        choices = sorted((decision.choice for decision in self.order), key=lambda choice: choice.order)
        for choice in reversed(choices):
            self.buckets[choice] = self._sum_parts(self.pending.pop(choice, []))
            self.exact = self.exact and len(self.buckets[choice]) <= 1
            for value in self.buckets[choice]:
                if current_budget().left < self.work_floor:
                    self.exact, value = False, min(leaves(value))
                self._add_to_bucket(_minimize_over(value, choice))
        if isinf(self.constant):
            return None
        return LowerBound(int(self.constant), self.exact, self._follow_bound(choices))

    def _add_to_bucket(self, value: Value) -> None:
        """Put a value into the bucket of the last choice that it depends on."""
        if varies(value):
            self.pending.setdefault(support(value)[-1], []).append(value)
        else:
            self.constant += value

    def _sum_parts(self, values: Sequence[Value]) -> list[Value]:
        """Add up values into as few sums as the size limit allows."""
        parts: list[Value] = []
        for value in values:
            for i, part in enumerate(parts):
                total = self._add(part, value)
                if total is not None:
                    parts[i] = total
                    break
            else:
                parts.append(value)
        return parts

    def _add(self, left: Value, right: Value) -> Value | None:
        """Return the sum of two values; None if it would be too large."""
        memo: dict[tuple[Diagram, Value], Value] = {}
        if self.work > MAX_TOTAL_NODES or current_budget().left < self.work_floor:
            return None

        def walk(left: Value, right: Value) -> Value:
            if type(left) is not Diagram and type(right) is not Diagram:
                return left + right
            if left == 0 or right == inf:
                return right
            if right == 0 or left == inf:
                return left
            if type(left) is not Diagram:
                left, right = right, left
            key = left, right
            if key not in memo:
                if len(memo) > self.max_nodes or current_budget().left < self.work_floor:
                    raise DiagramSizeError
                choice = min((v.choice for v in (left, right) if type(v) is Diagram), key=lambda choice: choice.order)
                left_branches = left.branches if type(left) is Diagram and left.choice is choice else repeat(left)
                right_branches = right.branches if type(right) is Diagram and right.choice is choice else repeat(right)
                memo[key] = make_diagram(choice, map(walk, left_branches, right_branches))
            return memo[key]

        try:
            return walk(left, right)
        except DiagramSizeError:
            return None
        finally:
            self.work += len(memo)

    def _follow_bound(self, choices: Sequence[Choice]) -> dict[str, int] | None:
        """Return the outcomes that, choice by choice, minimise the sum of the parts.

        None if conditions exclude all outcomes of some choice.
        """
        outcomes: dict[str, int] = {}
        for choice in choices:
            parts, totals = self.buckets[choice], []
            for outcome in range(choice.outcome_count if parts else 1):
                outcomes[choice.path] = outcome
                totals.append(sum(value_at(part, outcomes) for part in parts))
            best = min(totals)
            if isinf(best):
                return None
            outcomes[choice.path] = totals.index(best)
        return outcomes


def _penalty(holds: bool) -> float:
    """Return a condition as a cost: 0 where it holds, infinity elsewhere."""
    return 0 if holds else inf


def _minimize_over(value: Value, choice: Choice) -> Value:
    """Return the minimum of a value over the outcomes of `choice`, which must be the last choice that it depends on."""

    def minimize(diagram: Diagram, branches: list[Value]) -> Value:
        return min(branches) if diagram.choice is choice else make_diagram(diagram.choice, branches)

    return fold(value, lambda leaf: leaf, minimize)
