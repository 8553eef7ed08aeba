"""Bounds on costs, such as `require macs <= 600M`: which architectures keep them, and whether any does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from archir.costs.account import PEAKS, Account
from archir.costs.counting.plain import PlainAccount
from archir.costs.extremes.rough import Draw
from archir.costs.rules import rule_of
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import ArchError, fail
from archir.diagrams.cases import Value, leaves, varies
from archir.ir.graph import Constraint, Decision, Graph
from archir.language.elaboration.locals import latency_file
from archir.passes.cost import SUMMED
from archir.spaces.architecture import Architecture
from archir.spaces.rows import Codes, Rows
from archir.utils import arrays
from archir.utils.arrays import NDArray, np

MOST_DRAWS = 5_000
"""Architectures that are drawn for one within bounds."""


def further(graph: Graph, each: Sequence[Constraint]) -> dict[str, Rule]:
    """The rules of the costs that bounds are about beside the usual ones, latencies among them, by their names.

    Raises ArchError (A1501, A1502, A1507, A3320).
    """
    bounds: dict[str, Constraint] = {}
    for bound in each:
        if bound.cost is not None and bound.cost not in (*SUMMED, *PEAKS):
            before = bounds.setdefault(str(bound.cost), bound)
            if before.table != bound.table:
                text = f"`{bound.cost}` means two files, {before.table} and {bound.table}"
                raise fail("A1507", text, bound.span, "write one of the paths in another way, such as ./cpu.json")
    found: dict[str, Rule] = {}
    for name, bound in bounds.items():
        from archir.costs.latencies.files import latency_of

        try:
            found[name] = latency_of(graph, name, bound.table) if latency_file(name) else rule_of(graph, name)
        except ArchError as error:
            raise ArchError(
                *(replace(problem, span=problem.span or bound.span) for problem in error.diagnostics)
            ) from None
    return found


def account_of(
    graph: Graph, order: Sequence[Decision], conditions: Sequence[Value], bounds: Sequence[Constraint], draw: Draw
) -> Account:
    """What architectures cost, the bounded costs among that; without arrays, where there is no numpy.

    Raises ArchError (A1501, A1502, A1507, A3320).
    """
    kind = Account if arrays.there() else PlainAccount
    return kind(graph, order, conditions, further(graph, bounds), draw)


class Bounds:
    """The bounds of a space; `account` is of all architectures, whether they keep the bounds or not."""

    def __init__(self, each: Sequence[Constraint], account: Account, rows: Rows) -> None:
        self.each, self.account, self._rows = each, account, rows

    @cached_property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """The least and greatest allowed of each cost that is bounded whatever is chosen, by plain numbers."""
        found: dict[str, tuple[int, int]] = {}
        for bound in self.each:
            if self._ranged(bound):
                name = str(bound.cost)
                low, high = _RANGES[bound.relation](int(bound.limit))
                before = found.get(name, (-_FAR, _FAR))
                found[name] = max(before[0], low), min(before[1], high)
        return found

    @cached_property
    def bounded(self) -> Account:
        """The costs of the architectures that keep the bounds."""
        if isinstance(self.account, PlainAccount):
            return self.account.bounded(self.ranges if self.plain else None)
        from archir.costs.optimal.bounded import BoundedAccount

        return BoundedAccount(self.account, self.each, self.ranges if self.plain else {})

    @cached_property
    def plain(self) -> bool:
        """Whether ranges are all that there is."""
        return all(self._ranged(bound) for bound in self.each)

    @cached_property
    def followed(self) -> bool:
        """Whether the totals of what has ranges are few enough to be told apart."""
        return self.account.followed(self.ranges)

    def _ranged(self, bound: Constraint) -> bool:
        """Whether a bound is a range of a cost that adds up, whatever is chosen."""
        plain = bound.condition is True and not varies(bound.limit)
        return plain and bound.relation in _RANGES and bound.cost in self.account.summed

    def keeping(self, codes: Codes) -> NDArray[np.bool_]:
        """Which rows of outcomes keep every bound on costs."""
        fine = np.ones(len(codes), bool)
        costs = self.account.at(codes, {str(bound.cost) for bound in self.each})
        rows = np.arange(len(codes))
        for bound in self.each:
            limits = self._rows.values(bound.limit, codes, rows)
            keeps = _RELATIONS[bound.relation](costs[str(bound.cost)], limits)
            fine &= keeps | ~self._rows.values(bound.condition, codes, rows).astype(bool)
        return fine

    @property
    def drawable(self) -> bool:
        """Whether architectures are drawn without arrays."""
        return self.plain and isinstance(self.account, PlainAccount)

    def drawn(self, draw: Callable[[], Architecture]) -> Architecture:
        """Of architectures that are drawn, the first one within the bounds. Raises ArchError (A1005)."""
        assert isinstance(self.account, PlainAccount)
        for _ in range(MOST_DRAWS):
            found = draw()
            if self.account.keeps(found.outcomes, self.ranges):
                return found
        raise fail("A1005", f"{MOST_DRAWS:,} architectures in a row broke the bounds on costs", self.each[0].span)

    def prove(self) -> None:
        """Raise ArchError (A1603) if a bound on a cost is one that no architecture keeps, with the nearest cost."""
        for bound in self.each:
            self._prove_alone(bound)
        for name, (low, high) in self.ranges.items():
            if not self.account.some(name, low, high):
                bounds = [bound for bound in self.each if bound.cost == name]
                text = " and ".join(bound.text for bound in bounds)
                nearest = self.account.nearest(name, low, high) if low <= high else None
                unit = " ns" if latency_file(name) else ""
                hint = f"the nearest there is: {name} = {nearest:,}{unit}" if nearest is not None else None
                raise fail("A1603", f"no architecture has {text}", bounds[0].span, hint)
        if len(self.ranges) > 1 and not self.account.some_within(self.ranges):
            bounds = [bound for bound in self.each if bound.cost in self.ranges]
            text = " and ".join(bound.text for bound in bounds)
            raise fail("A1603", f"no architecture has {text}", bounds[0].span, "each of these alone leaves some")

    def _prove_alone(self, bound: Constraint) -> None:
        """Raise ArchError (A1603) for a bound that is no range, and that costs and limits are too far from."""
        if self._ranged(bound) or bound.condition is not True:
            return
        name, unit = str(bound.cost), " ns" if latency_file(str(bound.cost)) else ""
        try:
            low, high = self.account.limits(name)
        except ArchError as error:  # its choices are too entangled to know: draws will find out
            if error.diagnostics[0].code in ("A1601", "A1602"):
                return
            raise
        numbers = [int(leaf) for leaf in leaves(bound.limit)]
        if not _POSSIBLE[bound.relation](low, high, min(numbers), max(numbers)):
            between = f"{low:,}{unit}" if low == high else f"from {low:,} to {high:,}{unit}"
            raise fail("A1603", f"no architecture has {bound.text}", bound.span, f"{name} is {between}")

    def count(self, everything: int) -> tuple[int, int]:
        """At least and at most how many of the architectures, of which there are `everything`, keep every bound."""
        if not self.ranges:
            return everything if self.plain else 0, everything
        if not self.followed:
            some = all(self.account.some(name, *pair) for name, pair in self.ranges.items())
            every = all(self.account.every(name, *pair) for name, pair in self.ranges.items())
            return everything if every and self.plain else 0, everything if some else 0
        least, most = self.account.count_within(self.ranges)
        return least if self.plain else 0, most


_FAR = 2**62
_RANGES: dict[str, Callable[[int], tuple[int, int]]] = {
    "<=": lambda limit: (-_FAR, limit),
    "<": lambda limit: (-_FAR, limit - 1),
    ">=": lambda limit: (limit, _FAR),
    ">": lambda limit: (limit + 1, _FAR),
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
"""Whether a relation may hold between a number from `low` to `high` and one from `least` to `most`."""
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
