"""How many architectures cost how much: exact, and uniform draws among those within bounds.

Distributions are worked out from both ends of the chain of choices and meet in the middle, where each side is small:
totals within bounds are counted, and drawn, as pairs of a total before and a total after. What cannot come within the
bounds is left out on the way. A state's distribution is kept as shifted copies of earlier ones, and only written out
where few states are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from archir.costs import bounds
from archir.costs.chain import Chain, State, Step
from archir.costs.spread import BITS, Keys, Poly, Spread, TooManyTotalsError

FINE, COARSE = 1_000_000, 30_000
"""Totals of one distribution that are told apart, to count exactly or to draw quickly."""
MOST_TERMS = 16
"""Shifted copies that a state's distribution has on average before it is written out."""

Codes = NDArray[np.int16]
Side = list[dict[State, Poly]]
Rest = Mapping[State, tuple[int, int]]
"""For each state, the least and the most that the other side adds."""

_FAR = 2**62


class Distribution:
    """The totals of a cost over all architectures of a chain, from `low` to `high`.

    Where there are too many totals to be told apart, steps are rounded down to multiples of `unit`: a total is then up
    to `slack` less than it is.
    """

    def __init__(self, chain: Chain, low: int, high: int, entries: int | None = None, cost: int = 0) -> None:
        self.chain, self.cost, self.low, self.high = chain, cost, low, high
        self.entries = FINE if entries is None else entries
        self.unit = 1
        while True:
            try:
                self._meet()
                break
            except TooManyTotalsError:
                self.unit *= 2 if self.unit > 1 else max(2, _coarser(chain, cost, self.entries))

    def _meet(self) -> None:
        """Work out both sides, the smaller one first."""
        chain, ends = self.chain, len(self.chain.levels)
        costs = [[step.costs[self.cost] for steps in level.values() for step in steps] for level in chain.levels]
        self._least = [min(level, default=0) for level in costs]
        varying = sum(max(level, default=0) > least for level, least in zip(costs, self._least, strict=True))
        self.slack = varying * (self.unit - 1)
        self.constant = chain.constant[self.cost]
        limbs = sum(int(np.ceil(np.log2(max(1, d.choice.outcomes)))) for d in chain.order) // BITS + 2
        one = Spread(np.zeros(1, np.int64), np.array([[1] + [0] * (limbs - 1)], np.int64))
        self.before: Side = [{(): Poly({one: {0: 1}})}]
        self.after: Side = [{(): Poly({one: {0: 1}})}]
        least, most = self.low - self.constant - self.slack, self.high - self.constant
        ahead = [bounds.ahead(chain, self.cost, sign) for sign in (1, -1)]
        behind = [bounds.behind(chain, self.cost, sign) for sign in (1, -1)]
        while len(self.before) + len(self.after) < ends + 2:
            if _entries(self.before[-1]) <= _entries(self.after[-1]):
                level = len(self.before)
                rest = {s: (value, -ahead[1][level][s]) for s, value in ahead[0][level].items()}
                self.before.append(self._onward(self.before[-1], level - 1, rest, least, most))
            else:
                level = ends - len(self.after)
                rest = {s: (value, -behind[1][level][s]) for s, value in behind[0][level].items()}
                self.after.append(self._back(self.after[-1], level, rest, least, most))
        self.after.reverse()
        self.middle = len(self.before) - 1
        self.pairs = []
        for state, poly in self.before[-1].items():
            if state in self.after[0]:
                pair = poly.written(-_FAR, _FAR, self.entries), self.after[0][state].written(-_FAR, _FAR, self.entries)
                if all(len(spread.keys) for spread in pair):
                    self.pairs.append((state, *pair))

    def _rounded(self, level: int, step: Step) -> int:
        """What a step counts as."""
        least = self._least[level]
        return least + (step.costs[self.cost] - least) // self.unit * self.unit

    def _onward(self, states: Mapping[State, Poly], level: int, rest: Rest, least: int, most: int) -> dict[State, Poly]:
        """The distributions after one more choice, of totals that the rest can bring within bounds."""
        found: dict[State, dict[Spread, dict[int, int]]] = {}
        for state, poly in states.items():
            for step in self.chain.levels[level][state]:
                if step.after in rest:
                    _accumulate(found.setdefault(step.after, {}), poly, self._rounded(level, step))
        return self._settled(found, rest, least, most)

    def _back(self, states: Mapping[State, Poly], level: int, rest: Rest, least: int, most: int) -> dict[State, Poly]:
        """The distributions of what is to come before one more choice."""
        found: dict[State, dict[Spread, dict[int, int]]] = {}
        for state, steps in self.chain.levels[level].items():
            for step in steps:
                if step.after in states and state in rest:
                    _accumulate(found.setdefault(state, {}), states[step.after], self._rounded(level, step))
        return self._settled(found, rest, least, most)

    def _settled(
        self, found: Mapping[State, Mapping[Spread, Mapping[int, int]]], rest: Rest, least: int, most: int
    ) -> dict[State, Poly]:
        """Distributions written out where that takes less than their copies."""
        polys = {state: Poly(terms) for state, terms in found.items()}
        if sum(poly.size for poly in polys.values()) <= MOST_TERMS * len(polys) and len(polys) > 1:
            return polys
        made = {}
        for state, poly in polys.items():
            small, large = rest[state]
            spread = poly.written(least - large - self.slack, most - small + self.slack, self.entries)
            if len(spread.keys):
                made[state] = Poly({spread: {0: 1}})
        return made

    # questions

    def count(self, low: int, high: int) -> tuple[int, int]:
        """At least and at most how many architectures cost from `low` to `high`, both included; the same, and exact,
        unless totals are rounded."""
        most = self._pairs_within(low - self.slack, high)
        return (self._pairs_within(low, high - self.slack) if self.slack else most), most

    def _pairs_within(self, low: int, high: int) -> int:
        total = 0
        for _, one, other in self.pairs:
            if len(one.keys) > len(other.keys):
                one, other = other, one
            sums = np.concatenate([[0], np.cumsum(other.exact())])
            first, last = self._range(one, other, low, high)
            total += int(((sums[last] - sums[first]) * one.exact()).sum())
        return total

    def quantiles(self, fractions: Sequence[float]) -> list[int]:
        """The least totals that these fractions of the architectures do not exceed."""
        size = self._pairs_within(self.low - self.slack, self.high)
        found = []
        for fraction in fractions:
            low, high = self.low - self.slack, self.high
            while low < high:
                middle = (low + high) // 2
                if self._pairs_within(self.low - self.slack, middle) >= fraction * size:
                    high = middle
                else:
                    low = middle + 1
            found.append(max(low, self.low))
        return found

    def last(self, most: int) -> int | None:
        """The greatest total of at most `most`."""
        found = []
        for _, one, other in self.pairs:
            place = np.searchsorted(other.keys, most - self.constant - one.keys, side="right") - 1
            fits = place >= 0
            found += [int((one.keys[fits] + other.keys[place[fits]]).max()) + self.constant] if fits.any() else []
        return max(found, default=None)

    def first(self, least: int) -> int | None:
        """The least total of at least `least`."""
        found = []
        for _, one, other in self.pairs:
            place = np.searchsorted(other.keys, least - self.constant - one.keys, side="left")
            fits = place < len(other.keys)
            found += [int((one.keys[fits] + other.keys[place[fits]]).min()) + self.constant] if fits.any() else []
        return min(found, default=None)

    def _range(self, one: Spread, other: Spread, low: int, high: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """For each total of one side, which of the other's make a sum within bounds."""
        first = np.searchsorted(other.keys, low - self.constant - one.keys, side="left")
        last = np.searchsorted(other.keys, high - self.constant - one.keys, side="right")
        return first, np.maximum(first, last)

    def sample(self, n: int, rng: np.random.Generator, low: int, high: int) -> NDArray[np.int16]:
        """`n` architectures of these totals, uniformly, as rows of outcomes; there must be some. Where totals are
        rounded, all that may be within bounds are drawn, some that are not among them."""
        codes = np.full((n, len(self.chain.levels)), -1, np.int16)
        ranges = [self._range(one, other, low - self.slack, high) for _, one, other in self.pairs]
        shares = [
            (other.sums[last] - other.sums[first]) * one.floats
            for (_, one, other), (first, last) in zip(self.pairs, ranges, strict=True)
        ]
        totals = np.array([share.sum() for share in shares])
        drawn = rng.choice(len(self.pairs), n, p=totals / totals.sum())
        for number, (state, one, other) in enumerate(self.pairs):
            (rows,) = np.nonzero(drawn == number)
            if len(rows):
                sums, (first, last) = np.cumsum(shares[number]), ranges[number]
                entry = np.searchsorted(sums, rng.random(len(rows)) * sums[-1], side="right")
                entry = np.minimum(entry, np.flatnonzero(shares[number])[-1])
                start, end = other.sums[first[entry]], other.sums[last[entry]]
                place = np.searchsorted(other.sums, start + rng.random(len(rows)) * (end - start), side="right") - 1
                place = np.clip(place, first[entry], last[entry] - 1)
                self._walk_back(codes, rows, state, one.keys[entry], rng)
                self._walk_on(codes, rows, state, other.keys[place], rng)
        return codes

    def _walk_on(
        self, codes: NDArray[np.int16], rows: Keys, state: State, left: Keys, rng: np.random.Generator
    ) -> None:
        """Draw the choices after the middle, given what they are to cost."""
        groups = {state: (rows, left)}
        for level in range(self.middle, len(self.chain.levels)):
            ahead = self.after[level + 1 - self.middle]
            moved: dict[State, list[tuple[Keys, Keys]]] = {}
            for before, (some, totals) in groups.items():
                sources = [
                    (step, ahead[step.after]) for step in self.chain.levels[level][before] if step.after in ahead
                ]
                for number, part, rest in self._drawn(level, sources, totals, rng):
                    step = sources[number][0]
                    codes[some[part], level] = step.outcome
                    moved.setdefault(step.after, []).append((some[part], rest))
            groups = {after: _joined(parts) for after, parts in moved.items()}

    def _walk_back(
        self, codes: NDArray[np.int16], rows: Keys, state: State, spent: Keys, rng: np.random.Generator
    ) -> None:
        """Draw the choices before the middle, given what they have cost."""
        groups = {state: (rows, spent)}
        for level in reversed(range(self.middle)):
            arriving: dict[State, list[tuple[State, Step]]] = {}
            for before in self.before[level]:
                for step in self.chain.levels[level][before]:
                    arriving.setdefault(step.after, []).append((before, step))
            moved: dict[State, list[tuple[Keys, Keys]]] = {}
            for after, (some, totals) in groups.items():
                sources = [(step, self.before[level][before]) for before, step in arriving[after]]
                for number, part, rest in self._drawn(level, sources, totals, rng):
                    before, step = arriving[after][number]
                    codes[some[part], level] = step.outcome
                    moved.setdefault(before, []).append((some[part], rest))
            groups = {before: _joined(parts) for before, parts in moved.items()}

    def _drawn(
        self, level: int, sources: Sequence[tuple[Step, Poly]], totals: Keys, rng: np.random.Generator
    ) -> Iterator[tuple[int, Keys, Keys]]:
        """Rows by the step that is drawn for them, in proportion to the architectures that go on from it, and what is
        left of their totals."""
        rests = [totals - self._rounded(level, step) for step, _ in sources]
        if len(sources) == 1:
            yield 0, np.arange(len(totals)), rests[0]
            return
        sums = np.cumsum([poly.at(rest) for (_, poly), rest in zip(sources, rests, strict=True)], axis=0)
        drawn = (sums <= rng.random(len(totals)) * sums[-1]).sum(axis=0)
        for number, rest in enumerate(rests):
            (part,) = np.nonzero(drawn == number)
            if len(part):
                yield number, part, rest[part]


def _coarser(chain: Chain, cost: int, entries: int) -> int:
    """A unit that is worth trying when the exact totals are too many: the span in as many parts as are told apart."""
    levels = ([step.costs[cost] for steps in level.values() for step in steps] for level in chain.levels)
    span = sum(max(costs, default=0) - min(costs, default=0) for costs in levels)
    return 1 << max(1, (span // (4 * entries)).bit_length())


def _accumulate(into: dict[Spread, dict[int, int]], poly: Poly, by: int) -> None:
    for base, shifts in poly.terms.items():
        terms = into.setdefault(base, {})
        for shift, times in shifts.items():
            terms[shift + by] = terms.get(shift + by, 0) + times


def _joined(parts: list[tuple[Keys, Keys]]) -> tuple[Keys, Keys]:
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([totals for _, totals in parts])


def _entries(states: Mapping[State, Poly]) -> int:
    return sum(len(base.keys) * len(shifts) for poly in states.values() for base, shifts in poly.terms.items())
