"""Minimum and maximum costs if choices interact too much for a chain.

The result is a proved bound and the best architecture found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archir.costs.evaluators import FlatDiagram
from archir.costs.extremes import elimination, forward_search
from archir.costs.extremes.elimination import LowerBound
from archir.costs.extremes.witnesses import Extreme
from archir.costs.sums import Product, Term, lower_bound
from archir.costs.tables import Codes, Numbers
from archir.diagnostics.errors import LimitError
from archir.diagnostics.work import WorkError, budget_share
from archir.diagrams.diagram import Choice, DiagramSizeError, Value, varies
from archir.ir.graph import Decision

START_SAMPLES, MAX_ROUNDS = 512, 12
"""Number of random starting architectures, and maximum number of rounds of local search.

A round changes one choice.
"""
MAX_NEIGHBOURS = 4_096
"""Maximum number of neighbours that are evaluated in one round of local search."""
FORWARD_WORK_FRACTION = 1 / 4
"""Fraction of the remaining work budget that forward search may use before it is given up."""
ROUND_WORK_FRACTION = 1 / 8
"""Fraction of the remaining work budget that the evaluation of one architecture's neighbours may use."""
SAMPLING_WORK_FRACTION = 1 / 2
"""Fraction of the remaining work budget that sampling the starting architectures may use."""

Sampler: TypeAlias = Callable[[int, np.random.Generator], Codes]
"""Function that samples n architectures as rows of outcomes."""


class ExtremeSearch:
    """Search for the minimum or maximum of a cost: a proved bound, and local search from random architectures.

    `sampler` samples the random architectures.
    """

    def __init__(self, order: Sequence[Decision], conditions: Sequence[Value], sampler: Sampler) -> None:
        self.order, self.conditions, self.sampler = order, conditions, sampler
        self._index = {decision.choice.path: i for i, decision in enumerate(order)}
        self._forward_limit: float = inf  # number of terms from which on forward search takes too much work

    def extreme(
        self, terms: Mapping[Term, int], sign: int, exact: bool, costs: Callable[[Codes], Numbers]
    ) -> Extreme | None:
        """Return the minimum (`sign` 1) or maximum (`sign` -1) of a cost; None if the conditions are unsatisfiable.

        If `exact`, `terms` add up to the cost itself; otherwise, they add up to a lower bound (`sign` 1) or an upper
        bound (`sign` -1) of the cost.
        """
        exact = exact and not any(type(term) is Product for term in terms)
        values = [lower_bound(term, times * sign) for term, times in terms.items()]
        bound = self._lower_bound(values)
        if bound is None:
            return None
        candidates = [[bound.outcomes[d.choice.path] for d in self.order]] if bound.outcomes is not None else []
        codes = self._valid_rows(np.array(candidates, np.int16).reshape(len(candidates), len(self.order)))
        best_cost: int | None = None
        if not (bound.exact and exact and len(codes)):
            codes, best_cost = self._local_search(
                np.concatenate([codes, self._start_samples]), lambda rows: costs(rows) * sign
            )
        if not len(codes):
            return Extreme(sign * bound.bound, None)
        value = int(costs(codes[:1])[0]) if best_cost is None else sign * best_cost
        assert bound.bound <= sign * value, "an architecture violates the proved bound"
        return Extreme(value, tuple(codes[0].tolist()), sign * bound.bound)

    def _lower_bound(self, terms: Sequence[Value]) -> LowerBound | None:
        """Return a lower bound of a sum of terms, by forward search or, if that takes too much work, by elimination."""
        if len(terms) < self._forward_limit:
            try:
                with budget_share(FORWARD_WORK_FRACTION):
                    return forward_search.minimize(terms, self.conditions, self.order)
            except DiagramSizeError:
                pass
            except WorkError:
                self._forward_limit = len(terms)
        return elimination.minimize(terms, self.conditions, self.order)

    @cached_property
    def _start_samples(self) -> Codes:
        """Random starting architectures; none if sampling takes too much work."""
        try:
            with budget_share(SAMPLING_WORK_FRACTION):
                return self.sampler(START_SAMPLES, np.random.default_rng(0))
        except LimitError:
            return np.zeros((0, len(self.order)), np.int16)

    def _local_search(self, codes: Codes, costs: Callable[[Codes], Numbers]) -> tuple[Codes, int | None]:
        """Run local search from these architectures, and return the cheapest architecture found and its cost.

        Each round changes one choice. The search goes on as long as the cost falls and the evaluation stays within its
        share of the work budget. The cost is None if that share did not suffice to evaluate the architectures.
        """
        best: Codes = codes[:0]
        best_cost: int | None = None
        for _ in range(MAX_ROUNDS if len(codes) else 0):
            values = _costs_within_budget(costs, codes)
            if values is None and best_cost is None:
                return codes[:1], None
            if values is None:
                break
            index = int(np.argmin(values))
            if best_cost is not None and values[index] >= best_cost:
                break
            best, best_cost = codes[index : index + 1], int(values[index])
            codes = self._valid_rows(self._neighbours(best[0]))
            if not len(codes):
                break
        return best, best_cost

    def _neighbours(self, codes: NDArray[np.int16]) -> Codes:
        """Return the rows that differ from an architecture in the outcome of one active choice."""
        changes = [
            (position, outcome)
            for position, decision in enumerate(self.order)
            if codes[position] >= 0
            for outcome in _tried_outcomes(decision.choice)
        ][:MAX_NEIGHBOURS]
        rows = np.repeat(np.maximum(codes, 0)[None], len(changes), axis=0)
        for row, (position, outcome) in zip(rows, changes, strict=True):
            row[position] = outcome
        return rows

    def _valid_rows(self, rows: Codes) -> Codes:
        """Return those rows that are architectures of the space, with -1 for inactive choices."""
        rows = rows.copy()
        for position, active in enumerate(self._activity):
            if active is not None:
                rows[active.at(rows) == 0, position] = -1
        valid = np.ones(len(rows), bool)
        for condition in self._flat_conditions:
            valid &= condition.at(rows) == 1
        return rows[valid]

    @cached_property
    def _activity(self) -> list[FlatDiagram | None]:
        """For each choice, the flattened condition under which it is active; None if it always is."""
        return [None if d.active is True else FlatDiagram(d.active, self._index) for d in self.order]

    @cached_property
    def _flat_conditions(self) -> list[FlatDiagram]:
        """Flattened diagrams of the conditions that depend on choices."""
        return [FlatDiagram(condition, self._index) for condition in self.conditions if varies(condition)]


def _costs_within_budget(costs: Callable[[Codes], Numbers], codes: Codes) -> Numbers | None:
    """Return the costs of rows; None if computing them takes more than a round's share of the work budget."""
    try:
        with budget_share(ROUND_WORK_FRACTION):
            return costs(codes)
    except WorkError:
        return None


def _tried_outcomes(choice: Choice) -> Sequence[int]:
    """Return the outcomes of a choice to try: all, or the first 8 and the last 8 if there are more than 64."""
    outcomes = range(choice.outcome_count)
    return outcomes if len(outcomes) <= 64 else [*outcomes[:8], *outcomes[-8:]]
