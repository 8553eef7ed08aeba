"""Costs without numpy, for Python in a browser. Exact, for spaces with at most MAX_TOTALS distinct totals.

Choices are eliminated from the last to the first, as when architectures are counted (`archir/spaces/counting.py`); but
instead of numbers, histograms of totals are multiplied and added.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import accumulate
from math import prod
from typing import Any

from archir.costs.account import Account
from archir.costs.extremes.witnesses import Extreme
from archir.costs.sums import Term, factors, is_varying
from archir.diagnostics.errors import RuleError, fail
from archir.diagnostics.work import spend
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.diagrams.mdd import Choice, Value, fix_choice, support, value_at, varies
from archir.ir.graph import Decision

MAX_TOTALS = 50_000
"""Maximum number of distinct combinations of the totals of all costs."""
Total = tuple[int, ...]
"""A number for each cost."""


class JointHistogram:
    """Joint histogram: the number of partial architectures for each combination of totals."""

    __slots__ = ("_hash", "ways")

    def __init__(self, ways: dict[Total, int]) -> None:
        """Raises RuleError (A1602) for more than MAX_TOTALS combinations."""
        self.ways = ways
        self._hash = hash(frozenset(ways.items()))
        spend(len(ways))
        if len(ways) > MAX_TOTALS:
            text = f"the architectures have more than {MAX_TOTALS:,} different costs, the limit without numpy"
            raise RuleError(text, code="A1602")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JointHistogram) and self.ways == other.ways

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: JointHistogram) -> JointHistogram:
        """Return the histogram of two disjoint sets of alternatives."""
        ways_by_total = dict(self.ways)
        for total, ways in other.ways.items():
            ways_by_total[total] = ways_by_total.get(total, 0) + ways
        return JointHistogram(ways_by_total)

    def __mul__(self, other: JointHistogram) -> JointHistogram:
        """Return the histogram of all pairs of both operands: totals are added, counts multiplied."""
        spend(len(self.ways) * len(other.ways))
        ways_by_total: dict[Total, int] = {}
        for left, ways in self.ways.items():
            for right, other_ways in other.ways.items():
                total = tuple([a + b for a, b in zip(left, right, strict=True)])
                ways_by_total[total] = ways_by_total.get(total, 0) + ways * other_ways
        return JointHistogram(ways_by_total)


class Histogram:
    """Histogram of one cost: the distinct totals, and the number of architectures of each."""

    def __init__(self, ways: Mapping[int, int]) -> None:
        """`ways` has the number of architectures of each total."""
        self.keys = sorted(ways)
        self._sums = [0, *accumulate(ways[key] for key in self.keys)]

    def count(self, low: int, high: int) -> tuple[int, int]:
        """Return the number of architectures that cost from `low` to `high`, both included, twice: as exact lower and
        upper bound."""
        first, last = bisect_left(self.keys, low), bisect_right(self.keys, high)
        count = max(self._sums[last] - self._sums[first], 0) if last > first else 0
        return count, count

    def quantiles(self, fractions: Sequence[float]) -> list[int]:
        """Return, for each fraction, the least cost that this fraction of all architectures does not exceed."""
        ranks = [max(1, -(-Fraction(str(fraction)) * self._sums[-1] // 1)) for fraction in fractions]
        return [self.keys[min(bisect_left(self._sums, rank) - 1, len(self.keys) - 1)] for rank in ranks]

    def first_total(self, low: int) -> int | None:
        """Return the least total of at least `low`; None if there is none."""
        place = bisect_left(self.keys, low)
        return self.keys[place] if place < len(self.keys) else None

    def last_total(self, high: int) -> int | None:
        """Return the greatest total of at most `high`; None if there is none."""
        place = bisect_right(self.keys, high)
        return self.keys[place - 1] if place else None


class PlainAccount(Account):
    """Account that computes from decision diagrams alone, without arrays: the queries that the web page needs.

    Raises ArchError (A1602) where costs have too many totals.
    """

    def __init__(
        self, graph: Any, order: Sequence[Decision], conditions: Sequence[Value], *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(graph, order, conditions, *args, **kwargs)
        self._joint: dict[tuple[str, ...], JointHistogram] = {}
        self._histograms: dict[str, Histogram] = {}
        self._ranges: Mapping[str, tuple[int, int]] | None = {}

    def within_ranges(self, ranges: Mapping[str, tuple[int, int]] | None) -> PlainAccount:
        """Return the account of the architectures within ranges.

        `ranges` is None for bounds that are not ranges; then every query raises ArchError (A1602).
        """
        account = PlainAccount(self.graph, self.order, self.conditions, self.rules)
        account._ranges = ranges
        return account

    def _count_totals(self, costs: Sequence[Mapping[Term, int]]) -> dict[Total, int]:
        """Return the number of architectures within the ranges for each combination of totals of these costs."""
        if self._ranges is None:
            raise fail("A1602", "costs within bounds that are not plain ranges of additive costs need numpy")
        bounded_terms = [self.terms(name) for name in self._ranges]
        try:
            all_counts = _eliminate(self.order, self.conditions, [*costs, *bounded_terms]).ways
        except RuleError as error:
            raise fail("A1602", error.message) from None
        counts: dict[Total, int] = {}
        for total, ways in all_counts.items():
            if _is_inside(total[len(costs) :], [*self._ranges.values()]):
                counts[total[: len(costs)]] = counts.get(total[: len(costs)], 0) + ways
        if not counts and self._ranges:
            raise fail("A1603", f"no architecture is within the bounds on {', '.join(self._ranges)}")
        return counts

    def totals(self, names: tuple[str, ...]) -> JointHistogram:
        """Return the joint histogram of these costs. Raises ArchError (A0510) if no architecture satisfies the
        conditions."""
        if names not in self._joint:
            self._joint[names] = JointHistogram(self._count_totals([self.terms(name) for name in names]))
        if not self._joint[names].ways:
            raise fail("A0510", "no architecture satisfies the constraints")
        return self._joint[names]

    def _histogram(self, name: str) -> Histogram:
        """Return the histogram of one cost, from a cached joint histogram if there is one."""
        if name not in self._histograms:
            joint = next((names for names in self._joint if name in names), (name,))
            index, ways = joint.index(name), dict[int, int]()
            for total, count in self.totals(joint).ways.items():
                ways[total[index]] = ways.get(total[index], 0) + count
            self._histograms[name] = Histogram(ways)
        return self._histograms[name]

    def extreme(self, name: str, sign: int) -> Extreme:
        """Return the minimum (`sign` 1) or the maximum (-1) of a cost, without an architecture that attains it."""
        keys = self._histogram(name).keys
        return Extreme(keys[0] if sign == 1 else keys[-1], None)

    def distribution(self, name: str, low: int, high: int, entries: int | None = None) -> Any:
        """Return the histogram of a cost; it has all totals, whatever the range."""
        return self._histogram(name)

    def count_within(self, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """Return the number of architectures within all these ranges, twice: as exact lower and upper bound."""
        if len(ranges) == 1:
            ((name, pair),) = ranges.items()
            return self._histogram(name).count(*pair)
        names = tuple(ranges)
        joint = next((cached for cached in self._joint if set(names) <= set(cached)), names)
        limits = [ranges.get(name) for name in joint]
        count = sum(ways for total, ways in self.totals(joint).ways.items() if _is_inside(total, limits))
        return count, count

    def is_countable(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Return True: architectures within ranges can always be counted, or counting raises an error."""
        return True

    def may_satisfy(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether some architecture costs within all these ranges."""
        return self.count_within(ranges)[0] > 0

    def clear_range_caches(self) -> None:
        """Do nothing: the cached histograms serve all ranges."""

    def term_means(self, terms: Iterable[Term]) -> dict[Term, Fraction]:
        """Return the mean of each term over all architectures."""
        count = sum(self._count_totals([]).values())
        means: dict[Term, Fraction] = {}
        for term in dict.fromkeys(terms):
            value = lift(lambda *numbers: prod(numbers), *factors(term)) if is_varying(term) else term
            ways = self._count_totals([{value: 1}])
            means[term] = Fraction(sum(total * frequency for (total,), frequency in ways.items()), count)
        return means

    def satisfies(self, outcomes: Mapping[str, int], ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether an architecture, given by its outcomes, costs within all these ranges."""
        for name, (low, high) in ranges.items():
            terms = self.terms(name).items()
            cost = sum(
                times * prod(value_at(factor, outcomes) for factor in _factors_of(term)) for term, times in terms
            )
            if not low <= cost <= high:
                return False
        return True


def _factors_of(term: Term) -> Sequence[Value]:
    """Return the factors of a term."""
    return factors(term) if is_varying(term) else (term,)


def _is_inside(total: Total, limits: Sequence[tuple[int, int] | None]) -> bool:
    """Return whether all totals are within their limits; None is no limit."""
    return all(limit is None or limit[0] <= number <= limit[1] for number, limit in zip(total, limits, strict=True))


def _eliminate(
    order: Sequence[Decision], conditions: Iterable[Value], costs: Sequence[Mapping[Term, int]]
) -> JointHistogram:
    """Return the joint histogram of these costs. Raises RuleError if choices interact too much."""
    no_cost = (0,) * len(costs)
    unit, zero = JointHistogram({no_cost: 1}), JointHistogram({})
    remaining = [lift(lambda holds: unit if holds else zero, condition) for condition in conditions]
    remaining += [lift(lambda total: JointHistogram({total: 1}), value) for value in _grouped_costs(costs)]
    constant = reduce(_multiply, [value for value in remaining if not varies(value)], unit)
    remaining = [value for value in remaining if varies(value)]
    for decision in reversed(order):
        choice = decision.choice
        dependent = [value for value in remaining if choice in support(value)]
        remaining = [value for value in remaining if choice not in support(value)]
        product = reduce(_multiply, sorted(dependent, key=lambda value: len(support(value))), unit)
        ways = [fix_choice(product, choice, outcome) for outcome in range(choice.outcome_count)]
        total = if_else(decision.active, lift(_sum_histograms, *ways), ways[0])
        if varies(total):
            remaining.append(total)
        else:
            constant = _multiply(constant, total)
    return constant


def _grouped_costs(costs: Sequence[Mapping[Term, int]]) -> list[Value]:
    """Return tuple-valued diagrams, a number for each cost, that add up to the costs.

    Diagrams are merged where the choices of one include those of the other.
    """
    groups: dict[frozenset[Choice], Value] = {}
    for place, terms in enumerate(costs):
        for term, times in terms.items():
            value = lift(lambda *numbers, t=times: t * prod(numbers), *_factors_of(term))
            total = lift(lambda number, p=place: tuple(number if i == p else 0 for i in range(len(costs))), value)
            choices = frozenset(support(total))
            groups[choices] = lift(_add_totals, groups[choices], total) if choices in groups else total
    kept_choices: list[frozenset[Choice]] = []
    for choices in sorted(groups, key=len, reverse=True):
        target = next((larger for larger in kept_choices if choices <= larger), None)
        if target is None:
            kept_choices.append(choices)
        else:
            groups[target] = lift(_add_totals, groups[target], groups.pop(choices))
    return [groups[choices] for choices in kept_choices]


def _add_totals(left: Total, right: Total) -> Total:
    """Add two tuples of totals."""
    return tuple([a + b for a, b in zip(left, right, strict=True)])


def _multiply(left: Value, right: Value) -> Value:
    """Return the product of two diagrams."""
    return lift(lambda a, b: a * b, left, right)


def _sum_histograms(*ways: JointHistogram) -> JointHistogram:
    """Return the sum of histograms."""
    return reduce(lambda a, b: a + b, ways)
