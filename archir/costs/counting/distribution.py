"""Exact distribution of a cost: the number of architectures at each total.

Histograms of partial totals are computed from both ends of the chain of choices, until they meet at a stage where both
are small. Totals within bounds are counted as pairs of a partial total before and one after that stage. Partial totals
that cannot end within the bounds are dropped early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from archir.costs.chain import State
from archir.costs.counting.stages import Stages
from archir.costs.counting.totals import (
    Counts,
    Histogram,
    ShiftedHistogram,
    TooManyTotalsError,
    dot_product,
    merge_histograms,
    total_grid,
    zero_histogram,
)
from archir.costs.extremes import witnesses as bounds

MAX_SIDE_TOTALS = 10_000_000
"""Maximum number of distinct partial totals on one side; if there are more, costs are rounded."""

StateHistograms = Mapping[State, Histogram]
"""Maps each state to the histogram of its partial totals."""
StateParts = dict[State, list[ShiftedHistogram]]
"""Maps each state to the histograms that add up to the state's histogram."""


class Distribution:
    """Distribution of a cost over all architectures of a chain, for totals from `low` to `high`.

    If there are more than `entries` partial totals on one side, the costs of merged steps are rounded down to multiples
    of `unit`; a rounded total is at most `rounding` less than the exact one.
    """

    def __init__(self, stages: Stages, low: int, high: int, entries: int | None = None) -> None:
        """Compute the histograms of both sides; `unit` is doubled until they have few enough totals."""
        self.levels, self.low, self.high = stages.levels, low, high
        self.constant = stages.chain.constant[0]
        self.entries = MAX_SIDE_TOTALS if entries is None else entries
        costs = [[step.costs[0] for steps in level.values() for step in steps] for level in self.levels]
        self._least = [min(level) for level in costs]
        self.unit = 1
        while True:
            self.rounding = sum(
                max((cost - least) % self.unit for cost in level)
                for level, least in zip(costs, self._least, strict=True)
            )
            try:
                self.pairs = self._meet()
                break
            except TooManyTotalsError:
                span = sum(max(level) - least for level, least in zip(costs, self._least, strict=True))
                self.unit *= 2 if self.unit > 1 else max(2, 1 << (span // (4 * self.entries)).bit_length())

    def _meet(self) -> list[tuple[Histogram, Histogram]]:
        """Return, for each state at the meeting point, the histograms of the partial totals before and after it.

        In each iteration, the side that stays smaller is extended by one stage.
        """
        cost_ahead = [bounds.cost_to_go(self.levels, 0, sign) for sign in (1, -1)]
        cost_behind = [bounds.cost_so_far(self.levels, 0, sign) for sign in (1, -1)]
        first, last = 0, len(self.levels)
        before: StateHistograms = {(): zero_histogram()}
        after: StateHistograms = {(): zero_histogram()}
        while first < last:
            forward = self._within_reach(
                self._forward_parts(before, first), cost_ahead[0][first + 1], cost_ahead[1][first + 1]
            )
            backward = self._within_reach(
                self._backward_parts(after, last - 1), cost_behind[0][last - 1], cost_behind[1][last - 1]
            )
            if _estimate_size(forward) <= _estimate_size(backward):
                before, first = self._merge(forward), first + 1
            else:
                after, last = self._merge(backward), last - 1
        return [(before[state], after[state]) for state in before if state in after]

    def _forward_parts(self, before: StateHistograms, level: int) -> StateParts:
        """Return, for each state after stage `level`, histograms that add up to that of the totals before it."""
        parts: StateParts = {}
        for state, histogram in before.items():
            for step in self.levels[level][state]:
                part = ShiftedHistogram(histogram, self._rounded(level, step.costs[0]), step.path_count)
                parts.setdefault(step.after, []).append(part)
        return parts

    def _backward_parts(self, after: StateHistograms, level: int) -> StateParts:
        """Return, for each state before stage `level`, histograms that add up to that of the totals after it."""
        return {
            state: [
                ShiftedHistogram(after[step.after], self._rounded(level, step.costs[0]), step.path_count)
                for step in steps
                if step.after in after
            ]
            for state, steps in self.levels[level].items()
        }

    def _rounded(self, level: int, cost: int) -> int:
        """Return the cost of a merged step, rounded down to the stage's minimum plus a multiple of `unit`."""
        least = self._least[level]
        return least + (cost - least) // self.unit * self.unit

    def _within_reach(
        self, parts_by_state: StateParts, least: Mapping[State, int], greatest: Mapping[State, int]
    ) -> StateParts:
        """Drop the partial totals that cannot be completed to a total within bounds.

        The other side of the chain adds at least `least` and at most -`greatest`.
        """
        low, high = self.low - self.constant - 2 * self.rounding, self.high - self.constant + self.rounding
        result: StateParts = {}
        for state, parts in parts_by_state.items():
            if state in least:
                first, last = low + greatest[state], high - least[state]
                cropped = [
                    ShiftedHistogram(p.base.crop(first - p.shift, last - p.shift), p.shift, p.times) for p in parts
                ]
                result[state] = [part for part in cropped if len(part.base.keys)]
        return {state: parts for state, parts in result.items() if parts}

    def _merge(self, parts_by_state: StateParts) -> StateHistograms:
        """Return the histogram of each state. Raises TooManyTotalsError if all states together have too many totals."""
        histograms: dict[State, Histogram] = {}
        for state, parts in parts_by_state.items():
            histograms[state] = merge_histograms(
                parts, self.entries - sum(len(histogram.keys) - 1 for histogram in histograms.values())
            )
        return histograms

    def count(self, low: int, high: int) -> tuple[int, int]:
        """Return a lower and an upper bound of the number of architectures that cost `low` to `high` (inclusive).

        The two bounds are equal, and thus exact, unless totals are rounded.
        """
        low, high = max(low, self.low), min(high, self.high)
        most = self._within(low - self.rounding, high)
        return (self._within(low, high - self.rounding) if self.rounding else most), most

    def _within(self, low: int, high: int) -> int:
        """Return the number of architectures whose rounded total is from `low` to `high`."""
        return sum(dot_product(histogram.counts, counts) for histogram, counts in self._matches(low, high))

    def _matches(self, low: int, high: int) -> Sequence[tuple[Histogram, Counts]]:
        """Return, for each total of the smaller side, how many of the other side's totals give a sum in the range."""
        matches = []
        for small, large in self.pairs:
            if len(small.keys) > len(large.keys):
                small, large = large, small
            first = np.searchsorted(large.keys, low - self.constant - small.keys, side="left")
            last = np.searchsorted(large.keys, high - self.constant - small.keys, side="right")
            matches.append((small, large.cumulative[np.maximum(first, last)] - large.cumulative[first]))
        return matches

    def quantiles(self, fractions: Sequence[float]) -> list[int]:
        """Return, for each fraction, the smallest total that at least this fraction of architectures does not
        exceed."""
        size = self._within(self.low - self.rounding, self.high)
        result = []
        for fraction in fractions:
            rank = Fraction(str(fraction)) * size  # sizes may be beyond what floats hold
            low, high = self.low - self.rounding, self.high
            while low < high:
                middle = (low + high) // 2
                if self._within(self.low - self.rounding, middle) >= rank:
                    high = middle
                else:
                    low = middle + 1
            result.append(max(low, self.low))
        return result

    def last_total(self, most: int) -> int | None:
        """Return the greatest existing total that is at most `most`; None if there is none."""
        totals = []
        for left, right in self.pairs:
            place = np.searchsorted(right.keys, most - self.constant - left.keys, side="right") - 1
            exists = place >= 0
            totals += (
                [int((left.keys[exists] + right.keys[place[exists]]).max()) + self.constant] if exists.any() else []
            )
        return max(totals, default=None)

    def first_total(self, least: int) -> int | None:
        """Return the smallest existing total that is at least `least`; None if there is none."""
        totals = []
        for left, right in self.pairs:
            place = np.searchsorted(right.keys, least - self.constant - left.keys, side="left")
            exists = place < len(right.keys)
            totals += (
                [int((left.keys[exists] + right.keys[place[exists]]).min()) + self.constant] if exists.any() else []
            )
        return min(totals, default=None)


def _estimate_size(parts_by_state: StateParts) -> int:
    """Return an upper bound of the number of distinct totals after merging."""
    return sum(
        min(sum(len(part.base.keys) for part in parts), total_grid(parts)[2]) for parts in parts_by_state.values()
    )
