"""Draws in proportion to whole numbers of any length, exact to the last bit."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import gcd

from archir.utils.arrays import NDArray, np

BITS = 53
"""Bits that a random float has."""


@dataclass(frozen=True)
class Distribution:
    """How many ways there are with each outcome of a choice, or with any before it, up to a common factor.

    Exact, however large: an outcome that is one of 10^17 is possible. All zeros where nothing that satisfies the
    constraints can be reached.
    """

    ways: tuple[int, ...]

    @classmethod
    def of(cls, *weights: int) -> Distribution:
        """The distribution with these weights, one per outcome."""
        common = gcd(*weights) or 1
        return cls(tuple(accumulate(weight // common for weight in weights)))

    @cached_property
    def possible(self) -> tuple[int, ...]:
        """The outcomes that there are ways to."""
        return tuple(i for i, ways in enumerate(self.ways) if ways > (self.ways[i - 1] if i else 0))

    def draw(self, rng: random.Random) -> int:
        """An outcome in proportion to its ways, exactly."""
        return self._outcome(int(rng.random() * 2**BITS), lambda: rng.getrandbits(BITS))

    def draws(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`n` outcomes, each in proportion to its ways, exactly."""
        first = (rng.random(n) * 2.0**BITS).astype(np.int64)
        found = np.searchsorted(self._cells, first, side="right")
        for i in np.flatnonzero(self._cells[np.maximum(found, 1) - 1] == first):
            found[i] = self._outcome(int(first[i]), lambda: int(rng.integers(2**BITS)))
        return found

    def _outcome(self, number: int, more: Callable[[], int]) -> int:
        """The outcome at a point between 0 and 1 of which `number` has the first bits; `more` draws further ones, which
        are wanted where an outcome ends within what is known of the point."""
        bits, total = BITS, self.ways[-1]
        while True:
            least, most = number * total, (number + 1) * total - 1
            outcome = bisect_right(self.ways, least >> bits)
            if outcome == bisect_right(self.ways, most >> bits):
                return outcome
            number, bits = number << BITS | more(), bits + BITS

    @cached_property
    def _cells(self) -> NDArray[np.int64]:
        """Of 2^53 equal parts of the way from 0 to 1, those in which an outcome ends."""
        return np.array([(ways << BITS) // self.ways[-1] for ways in self.ways], np.int64)
