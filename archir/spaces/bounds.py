"""Bounds on costs, such as `require macs <= 600M`: which architectures satisfy them, and whether any does."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.costs.account import PEAKS, Account
from archir.costs.rules import rule_of
from archir.costs.symbolic import Rule
from archir.costs.tables import MAX_SUM, Codes
from archir.diagnostics.errors import ArchError, LimitError, fail
from archir.diagrams.diagram import leaves, varies
from archir.diagrams.lifting import lift
from archir.ir.graph import Constraint, Graph
from archir.language.elaboration.cost_names import latency_file
from archir.passes.cost import ADDITIVE_COSTS
from archir.spaces.rows import RowSampler


def bounded_cost_rules(graph: Graph, constraints: Sequence[Constraint]) -> dict[str, Rule]:
    """Return the rules of those bounded costs that are not built in, such as latencies, by name.

    Raises ArchError (A1501, A1502, A1507, A3320).
    """
    bounds: dict[str, Constraint] = {}
    for bound in constraints:
        if bound.cost is not None and bound.cost not in (*ADDITIVE_COSTS, *PEAKS):
            first = bounds.setdefault(str(bound.cost), bound)
            if first.table != bound.table:
                text = f"`{bound.cost}` refers to two different files, {first.table} and {bound.table}"
                there = next((table for table in (bound.table, first.table) if table and table.exists()), "cpu.json")
                hint = f"write one of the paths differently, such as ./{os.path.relpath(there)}"
                raise fail("A1507", text, bound.span, hint)
    rules: dict[str, Rule] = {}
    for name, bound in bounds.items():
        from archir.costs.latencies.files import latency_cost

        try:
            rules[name] = latency_cost(graph, name, bound.table) if latency_file(name) else rule_of(graph, name)
        except ArchError as error:
            raise ArchError(
                *(replace(problem, span=problem.span or bound.span) for problem in error.diagnostics)
            ) from None
    return rules


def clip_limit(bound: Constraint) -> Constraint:
    """Return a bound whose limits fit into 64 bits; no cost is beyond the limits of the result that are clipped."""
    return replace(bound, limit=lift(lambda limit: min(max(int(limit), -MAX_SUM), MAX_SUM), bound.limit))


class Bounds:
    """Bounds on the costs of a space.

    `account` has the costs of all architectures, including those that violate bounds.
    """

    def __init__(self, constraints: Sequence[Constraint], account: Account, rows: RowSampler) -> None:
        self.constraints = [clip_limit(bound) for bound in constraints]
        self.account, self._rows = account, rows

    @cached_property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest allowed value of each additive cost with unconditional bounds that have constant
        limits."""
        ranges: dict[str, tuple[int, int]] = {}
        for bound in self.constraints:
            if self._is_range(bound):
                name = str(bound.cost)
                low, high = _RANGES[bound.relation](int(bound.limit))
                before = ranges.get(name, (-MAX_SUM, MAX_SUM))
                ranges[name] = max(before[0], low), min(before[1], high)
        return ranges

    @cached_property
    def bounded_account(self) -> Account:
        """Costs of the architectures that satisfy the bounds."""
        from archir.costs.optimal.bounded import BoundedAccount

        return BoundedAccount(self.account, self.constraints, self.ranges if self.has_only_ranges else {})

    @cached_property
    def has_only_ranges(self) -> bool:
        """True if every bound is an unconditional range of an additive cost."""
        return all(self._is_range(bound) for bound in self.constraints)

    @cached_property
    def is_countable(self) -> bool:
        """True if the costs that have ranges take few enough different totals to be counted exactly."""
        return self.account.is_countable(self.ranges)

    def _is_range(self, bound: Constraint) -> bool:
        """Return True if a bound is an unconditional range of an additive cost."""
        plain = bound.condition is True and not varies(bound.limit)
        return plain and bound.relation in _RANGES and bound.cost in self.account.summed

    def mask(self, codes: Codes) -> NDArray[np.bool_]:
        """Return a mask of the rows of outcomes that satisfy every bound on costs."""
        kept = np.ones(len(codes), bool)
        costs = self.account.at(codes, {str(bound.cost) for bound in self.constraints})
        rows = np.arange(len(codes))
        for bound in self.constraints:
            limits = self._rows.evaluate(bound.limit, codes, rows)
            keeps = _RELATIONS[bound.relation](costs[str(bound.cost)], limits)
            kept &= keeps | ~self._rows.evaluate(bound.condition, codes, rows).astype(bool)
        return kept

    def check(self) -> None:
        """Raise ArchError (A1603) if no architecture satisfies some bound, or if none satisfies all bounds.

        The hint gives the nearest existing cost.
        """
        for bound in self.constraints:
            self._check_single(bound)
        for name, (low, high) in self.ranges.items():
            if not self.account.may_contain(name, low, high):
                bounds = [bound for bound in self.constraints if bound.cost == name]
                text = " and ".join(bound.text for bound in bounds)
                nearest_cost = self.account.nearest_cost(name, low, high) if low <= high else None
                unit = " ns" if latency_file(name) else ""
                hint = f"the nearest there is: {name} = {nearest_cost:,}{unit}" if nearest_cost is not None else None
                raise fail("A1603", f"no architecture has {text}", bounds[0].span, hint)
        if len(self.ranges) > 1 and not self.account.may_satisfy(self.ranges):
            bounds = [bound for bound in self.constraints if bound.cost in self.ranges]
            text = " and ".join(bound.text for bound in bounds)
            hint = "each of these bounds alone can be met"
            raise fail("A1603", f"no architecture has {text}", bounds[0].span, hint)

    def _check_single(self, bound: Constraint) -> None:
        """Raise ArchError (A1603) if the cost's limits make it impossible to satisfy a bound that is not a range."""
        if self._is_range(bound) or bound.condition is not True:
            return
        name, unit = str(bound.cost), " ns" if latency_file(str(bound.cost)) else ""
        try:
            low, high = self.account.limits(name)
        except LimitError:  # sampling will show
            return
        numbers = [int(leaf) for leaf in leaves(bound.limit)]
        if not _POSSIBLE[bound.relation](low, high, min(numbers), max(numbers)):
            between = f"{low:,}{unit}" if low == high else f"from {low:,} to {high:,}{unit}"
            raise fail("A1603", f"no architecture has {bound.text}", bound.span, f"{name} is {between}")

    def count(self, everything: int) -> tuple[int, int]:
        """Return lower and upper limits on the number of architectures that satisfy all bounds on costs.

        `everything` is the number of all architectures, including those that violate the bounds.
        """
        if not self.ranges:
            return everything if self.has_only_ranges else 0, everything
        if not self.is_countable:
            may_exist = all(self.account.may_contain(name, *pair) for name, pair in self.ranges.items())
            all_kept = all(self.account.is_always_within(name, *pair) for name, pair in self.ranges.items())
            return everything if all_kept and self.has_only_ranges else 0, everything if may_exist else 0
        lower, upper = self.account.count_within(self.ranges)
        return lower if self.has_only_ranges else 0, upper


_RANGES: dict[str, Callable[[int], tuple[int, int]]] = {
    "<=": lambda limit: (-MAX_SUM, limit),
    "<": lambda limit: (-MAX_SUM, limit - 1),
    ">=": lambda limit: (limit, MAX_SUM),
    ">": lambda limit: (limit + 1, MAX_SUM),
    "==": lambda limit: (limit, limit),
}
_POSSIBLE: dict[str, Callable[[int, int, int, int], bool]] = {
    "<": lambda low, high, least, most: low < most,
    "<=": lambda low, high, least, most: low <= most,
    ">": lambda low, high, least, most: high > least,
    ">=": lambda low, high, least, most: high >= least,
    "==": lambda low, high, least, most: low <= most and high >= least,
    "!=": lambda low, high, least, most: not low == high == least == most,
}
"""For each relation, a function that decides whether the relation holds for some numbers in two ranges.

The left number ranges from `low` to `high`, the right number from `least` to `most`.
"""
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
