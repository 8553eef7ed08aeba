"""How many architectures cost how much: exact.

Distributions are worked out from both ends of the chain of choices and meet in the middle, where each side is small:
totals within bounds are counted as pairs of a total before and a total after. What cannot come within the bounds is
left out on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from archir.costs.counting.merged_steps import Strides
from archir.costs.counting.totals import Counts, Part, Spread, TooManyTotalsError, empty_sum, lattice, merged, product
from archir.costs.dynamic import State
from archir.costs.extremes import witnesses as bounds
from archir.utils.arrays import np

FINE = 10_000_000
"""Totals on one side that are told apart."""

Side = Mapping[State, Spread]
Parts = dict[State, list[Part]]


class Distribution:
    """The totals of a cost over all architectures of a chain, from `low` to `high`.

    Where there are too many totals to be told apart, strides are rounded down to multiples of `unit`: a total is then
    up to `slack` less than it is.
    """

    def __init__(self, strides: Strides, low: int, high: int, entries: int | None = None) -> None:
        self.levels, self.low, self.high = strides.levels, low, high
        self.constant = strides.chain.constant[0]
        self.entries = FINE if entries is None else entries
        costs = [[stride.costs[0] for strides in level.values() for stride in strides] for level in self.levels]
        self._least = [min(level) for level in costs]
        self.unit = 1
        while True:
            self.slack = sum(
                max((cost - least) % self.unit for cost in level)
                for level, least in zip(costs, self._least, strict=True)
            )
            try:
                self.pairs = self._meet()
                break
            except TooManyTotalsError:
                span = sum(max(level) - least for level, least in zip(costs, self._least, strict=True))
                self.unit *= 2 if self.unit > 1 else max(2, 1 << (span // (4 * self.entries)).bit_length())

    def _meet(self) -> list[tuple[Spread, Spread]]:
        """For each state in the middle, the totals before and after it. The smaller side is worked out first."""
        ahead = [bounds.ahead(self.levels, 0, sign) for sign in (1, -1)]
        behind = [bounds.behind(self.levels, 0, sign) for sign in (1, -1)]
        first, last = 0, len(self.levels)
        before: Side = {(): empty_sum()}
        after: Side = {(): empty_sum()}
        while first < last:
            onward = self._fitting(self._onward(before, first), ahead[0][first + 1], ahead[1][first + 1])
            back = self._fitting(self._back(after, last - 1), behind[0][last - 1], behind[1][last - 1])
            if _estimated(onward) <= _estimated(back):
                before, first = self._settled(onward), first + 1
            else:
                after, last = self._settled(back), last - 1
        return [(before[state], after[state]) for state in before if state in after]

    def _onward(self, before: Side, level: int) -> Parts:
        """What the distributions after one more stride are made of."""
        found: Parts = {}
        for state, spread in before.items():
            for stride in self.levels[level][state]:
                part = Part(spread, self._rounded(level, stride.costs[0]), stride.times)
                found.setdefault(stride.after, []).append(part)
        return found

    def _back(self, after: Side, level: int) -> Parts:
        """What the distributions of what is to come before one more stride are made of."""
        return {
            state: [
                Part(after[stride.after], self._rounded(level, stride.costs[0]), stride.times)
                for stride in strides
                if stride.after in after
            ]
            for state, strides in self.levels[level].items()
        }

    def _rounded(self, level: int, cost: int) -> int:
        """What a stride counts as."""
        least = self._least[level]
        return least + (cost - least) // self.unit * self.unit

    def _fitting(self, found: Parts, least: Mapping[State, int], greatest: Mapping[State, int]) -> Parts:
        """What the other side can bring within bounds; that adds at least `least`, and at most minus `greatest`."""
        low, high = self.low - self.constant - 2 * self.slack, self.high - self.constant + self.slack
        kept: Parts = {}
        for state, parts in found.items():
            if state in least:
                first, last = low + greatest[state], high - least[state]
                cropped = [Part(p.base.between(first - p.shift, last - p.shift), p.shift, p.times) for p in parts]
                kept[state] = [part for part in cropped if len(part.base.keys)]
        return {state: parts for state, parts in kept.items() if parts}

    def _settled(self, found: Parts) -> Side:
        made: dict[State, Spread] = {}
        for state, parts in found.items():
            made[state] = merged(parts, self.entries - sum(len(spread.keys) - 1 for spread in made.values()))
        return made

    def count(self, low: int, high: int) -> tuple[int, int]:
        """At least and at most how many architectures cost from `low` to `high`, both included; the same, and exact,
        unless totals are rounded."""
        low, high = max(low, self.low), min(high, self.high)
        most = self._within(low - self.slack, high)
        return (self._within(low, high - self.slack) if self.slack else most), most

    def _within(self, low: int, high: int) -> int:
        return sum(product(one.counts, counts) for one, counts in self._matches(low, high))

    def _matches(self, low: int, high: int) -> Sequence[tuple[Spread, Counts]]:
        """For each total of one side, how many of the other's make a sum within bounds."""
        found = []
        for one, other in self.pairs:
            if len(one.keys) > len(other.keys):
                one, other = other, one
            first = np.searchsorted(other.keys, low - self.constant - one.keys, side="left")
            last = np.searchsorted(other.keys, high - self.constant - one.keys, side="right")
            found.append((one, other.sums[np.maximum(first, last)] - other.sums[first]))
        return found

    def quantiles(self, fractions: Sequence[float]) -> list[int]:
        """The least totals that these fractions of the architectures do not exceed."""
        size = self._within(self.low - self.slack, self.high)
        found = []
        for fraction in fractions:
            wanted = Fraction(str(fraction)) * size  # sizes may be beyond what floats hold
            low, high = self.low - self.slack, self.high
            while low < high:
                middle = (low + high) // 2
                if self._within(self.low - self.slack, middle) >= wanted:
                    high = middle
                else:
                    low = middle + 1
            found.append(max(low, self.low))
        return found

    def last(self, most: int) -> int | None:
        """The greatest total of at most `most`."""
        found = []
        for one, other in self.pairs:
            place = np.searchsorted(other.keys, most - self.constant - one.keys, side="right") - 1
            fits = place >= 0
            found += [int((one.keys[fits] + other.keys[place[fits]]).max()) + self.constant] if fits.any() else []
        return max(found, default=None)

    def first(self, least: int) -> int | None:
        """The least total of at least `least`."""
        found = []
        for one, other in self.pairs:
            place = np.searchsorted(other.keys, least - self.constant - one.keys, side="left")
            fits = place < len(other.keys)
            found += [int((one.keys[fits] + other.keys[place[fits]]).min()) + self.constant] if fits.any() else []
        return min(found, default=None)


def _estimated(found: Parts) -> int:
    """How many totals there are at most."""
    return sum(min(sum(len(part.base.keys) for part in parts), lattice(parts)[2]) for parts in found.values())
