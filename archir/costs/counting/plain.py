"""Costs without arrays: for Python in a browser, where numpy is not. Exact, for spaces with not too many totals.

Each choice is eliminated, last to first, as when architectures are counted (`search/spaces/counting.py`); but instead
of numbers, what is multiplied and added says how many ways lead to each total.
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
from archir.costs.sums import Term, depends, factors
from archir.diagnostics.errors import RuleError, fail
from archir.diagnostics.work import spend
from archir.diagrams.cases import Choice, Value, at, fix, support, varies
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.ir.graph import Decision

MOST_TOTALS = 50_000
"""Totals, of all costs together, that are told apart."""
Total = tuple[int, ...]
"""A number for each cost."""


class Totals:
    """How many ways lead to each total."""

    __slots__ = ("_hash", "ways")

    def __init__(self, ways: dict[Total, int]) -> None:
        self.ways = ways
        self._hash = hash(frozenset(ways.items()))
        spend(len(ways))
        if len(ways) > MOST_TOTALS:
            raise RuleError(f"the architectures have more than {MOST_TOTALS:,} different costs", code="A1602")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Totals) and self.ways == other.ways

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Totals) -> Totals:
        """Ways of one kind, or of the other."""
        found = dict(self.ways)
        for total, ways in other.ways.items():
            found[total] = found.get(total, 0) + ways
        return Totals(found)

    def __mul__(self, other: Totals) -> Totals:
        """Ways of one kind, followed by ways of the other."""
        spend(len(self.ways) * len(other.ways))
        found: dict[Total, int] = {}
        for one, ways in self.ways.items():
            for two, more in other.ways.items():
                total = tuple([a + b for a, b in zip(one, two, strict=True)])
                found[total] = found.get(total, 0) + ways * more
        return Totals(found)


class Spread:
    """The totals of one cost, and how many architectures have each."""

    def __init__(self, ways: Mapping[int, int]) -> None:
        self.keys = sorted(ways)
        self._sums = [0, *accumulate(ways[key] for key in self.keys)]

    def count(self, low: int, high: int) -> tuple[int, int]:
        """How many architectures cost from `low` to `high`, both included: twice the same, as it is exact."""
        first, last = bisect_left(self.keys, low), bisect_right(self.keys, high)
        found = max(self._sums[last] - self._sums[first], 0) if last > first else 0
        return found, found

    def quantiles(self, fractions: Sequence[float]) -> list[int]:
        """The least costs that these fractions of all architectures do not exceed."""
        wanted = [max(1, -(-Fraction(fraction) * self._sums[-1] // 1)) for fraction in fractions]
        return [self.keys[min(bisect_left(self._sums, rank) - 1, len(self.keys) - 1)] for rank in wanted]

    def first(self, low: int) -> int | None:
        """The least total that is at least so much."""
        place = bisect_left(self.keys, low)
        return self.keys[place] if place < len(self.keys) else None

    def last(self, high: int) -> int | None:
        """The greatest total that is at most so much."""
        place = bisect_right(self.keys, high)
        return self.keys[place - 1] if place else None


class PlainAccount(Account):
    """What the architectures of a space cost, from its decision diagrams alone: of what `Account` answers, what a page
    asks. Raises ArchError (A1602) where costs have too many totals."""

    def __init__(
        self, graph: Any, order: Sequence[Decision], conditions: Sequence[Value], *rest: Any, **more: Any
    ) -> None:
        super().__init__(graph, order, conditions, *rest, **more)
        self._joint: dict[tuple[str, ...], Totals] = {}
        self._spreads: dict[str, Spread] = {}
        self._ranges: Mapping[str, tuple[int, int]] | None = {}

    def bounded(self, ranges: Mapping[str, tuple[int, int]] | None) -> PlainAccount:
        """The costs of the architectures within ranges; None: within bounds that are no ranges, which is refused."""
        found = PlainAccount(self.graph, self.order, self.conditions, self.rules)
        found._ranges = ranges
        return found

    def _kept(self, costs: Sequence[Mapping[Term, int]]) -> dict[Total, int]:
        """How many architectures within the ranges have each total of these costs."""
        if self._ranges is None:
            raise fail("A1602", "costs within bounds that are no ranges are worked out with numpy")
        limited = [self.terms(name) for name in self._ranges]
        try:
            every = _eliminated(self.order, self.conditions, [*costs, *limited]).ways
        except RuleError as error:
            raise fail("A1602", error.message) from None
        found: dict[Total, int] = {}
        for total, ways in every.items():
            if _inside(total[len(costs) :], [*self._ranges.values()]):
                found[total[: len(costs)]] = found.get(total[: len(costs)], 0) + ways
        if not found and self._ranges:
            raise fail("A1603", f"no architecture is within the bounds on {', '.join(self._ranges)}")
        return found

    def totals(self, names: tuple[str, ...]) -> Totals:
        """How many architectures have each combination of these costs."""
        if names not in self._joint:
            self._joint[names] = Totals(self._kept([self.terms(name) for name in names]))
        if not self._joint[names].ways:
            raise fail("A0510", "no architecture satisfies the constraints")
        return self._joint[names]

    def _spread(self, name: str) -> Spread:
        if name not in self._spreads:
            joint = next((names for names in self._joint if name in names), (name,))
            place, ways = joint.index(name), dict[int, int]()
            for total, many in self.totals(joint).ways.items():
                ways[total[place]] = ways.get(total[place], 0) + many
            self._spreads[name] = Spread(ways)
        return self._spreads[name]

    def end(self, name: str, sign: int) -> Extreme:
        """The least (1) or the greatest (-1); which architecture has it is not said."""
        keys = self._spread(name).keys
        return Extreme(keys[0] if sign == 1 else keys[-1], None)

    def distribution(self, name: str, low: int, high: int, entries: int | None = None) -> Any:
        """All totals of a cost."""
        return self._spread(name)

    def count_within(self, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """How many architectures cost within all these ranges: twice the same, as it is exact."""
        if len(ranges) == 1:
            ((name, pair),) = ranges.items()
            return self._spread(name).count(*pair)
        names = tuple(ranges)
        known = next((one for one in self._joint if set(names) <= set(one)), names)
        limits = [ranges.get(name) for name in known]
        found = sum(ways for total, ways in self.totals(known).ways.items() if _inside(total, limits))
        return found, found

    def followed(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Whether architectures within ranges can be counted; where they cannot, an error says so."""
        return True

    def some_within(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Whether there are architectures that cost within all these ranges."""
        return self.count_within(ranges)[0] > 0

    def forget(self) -> None:
        """What is worked out serves all ranges."""

    def average(self, terms: Iterable[Term]) -> dict[Term, Fraction]:
        """The mean of each term over all architectures."""
        every = sum(self._kept([]).values())
        found: dict[Term, Fraction] = {}
        for term in dict.fromkeys(terms):
            value = lift(lambda *numbers: prod(numbers), *factors(term)) if depends(term) else term
            ways = self._kept([{value: 1}])
            found[term] = Fraction(sum(total * many for (total,), many in ways.items()), every)
        return found

    def keeps(self, outcomes: Mapping[str, int], ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Whether an architecture costs within all these ranges."""
        for name, (low, high) in ranges.items():
            terms = self.terms(name).items()
            cost = sum(times * prod(at(one, outcomes) for one in _parts(term)) for term, times in terms)
            if not low <= cost <= high:
                return False
        return True


def _parts(term: Term) -> Sequence[Value]:
    return factors(term) if depends(term) else (term,)


def _inside(total: Total, limits: Sequence[tuple[int, int] | None]) -> bool:
    return all(limit is None or limit[0] <= one <= limit[1] for one, limit in zip(total, limits, strict=True))


def _eliminated(order: Sequence[Decision], conditions: Iterable[Value], costs: Sequence[Mapping[Term, int]]) -> Totals:
    """How many architectures have each total of these costs. Raises RuleError where choices are too entangled."""
    none = (0,) * len(costs)
    one, nothing = Totals({none: 1}), Totals({})
    left = [lift(lambda holds: one if holds else nothing, condition) for condition in conditions]
    left += [lift(lambda total: Totals({total: 1}), value) for value in _grouped(costs)]
    plain = reduce(_times, [value for value in left if not varies(value)], one)
    left = [value for value in left if varies(value)]
    for decision in reversed(order):
        choice = decision.choice
        about = [value for value in left if choice in support(value)]
        left = [value for value in left if choice not in support(value)]
        product = reduce(_times, sorted(about, key=lambda value: len(support(value))), one)
        ways = [fix(product, choice, outcome) for outcome in range(choice.outcomes)]
        total = if_else(decision.active, lift(_sum, *ways), ways[0])
        if varies(total):
            left.append(total)
        else:
            plain = _times(plain, total)
    return plain


def _grouped(costs: Sequence[Mapping[Term, int]]) -> list[Value]:
    """Values, each a number for each cost, that add up to the costs; of the choices of one, no other knows them all."""
    groups: dict[frozenset[Choice], Value] = {}
    for place, terms in enumerate(costs):
        for term, times in terms.items():
            value = lift(lambda *numbers, t=times: t * prod(numbers), *_parts(term))
            total = lift(lambda number, p=place: tuple(number if i == p else 0 for i in range(len(costs))), value)
            about = frozenset(support(total))
            groups[about] = lift(_joined, groups[about], total) if about in groups else total
    kept: list[frozenset[Choice]] = []
    for about in sorted(groups, key=len, reverse=True):
        home = next((one for one in kept if about <= one), None)
        if home is None:
            kept.append(about)
        else:
            groups[home] = lift(_joined, groups[home], groups.pop(about))
    return [groups[about] for about in kept]


def _joined(one: Total, other: Total) -> Total:
    return tuple([a + b for a, b in zip(one, other, strict=True)])


def _times(one: Value, other: Value) -> Value:
    return lift(lambda a, b: a * b, one, other)


def _sum(*ways: Totals) -> Totals:
    return reduce(lambda a, b: a + b, ways)
