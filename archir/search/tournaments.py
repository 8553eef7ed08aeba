"""Tournament selection: the winner is the best of several sampled candidates.

If all candidates are sorted, the winner's index has a known distribution and is sampled with one random
number.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import comb

from archir.search.ask_tell import ScoredCandidate

SortKey = tuple[float, ...]
"""Unique sort key of a candidate: its objective values, a random number, and a counter."""


@lru_cache(maxsize=256)
def winner_distribution(count: int, size: int, replacement: bool) -> Sequence[float]:
    """Return the cumulative distribution of the winner's index if `size` of `count` sorted candidates are sampled.

    Entry i is the probability that the winner's index is at most i. `replacement`: sample with replacement.
    """
    if replacement:
        return [1.0 - ((count - index) / count) ** size for index in range(1, count)] + [1.0]
    size = min(size, count)
    subsets = comb(count, size)
    return [
        count_of_index / subsets
        for count_of_index in accumulate(comb(count - index, size - 1) for index in range(1, count + 1))
    ]


def sample_winner(count: int, size: int, rng: random.Random) -> int:
    """Sample the winner's index in a tournament of `size` candidates, drawn with replacement from `count` sorted
    ones."""
    return bisect_right(winner_distribution(count, size, True), rng.random())


class Ranking:
    """Sorted collection of candidates that samples tournament winners; ties are in random order."""

    def __init__(self, size: int, replacement: bool) -> None:
        self._size, self._replacement = size, replacement
        self._ordered: list[SortKey] = []
        self._scored: dict[float, ScoredCandidate] = {}
        self._count = 0
        self._distribution: Sequence[float] = ()

    def add(self, scored: ScoredCandidate, rng: random.Random) -> SortKey:
        """Add a candidate; return its sort key, with which it can be removed."""
        self._count += 1
        key = (*scored.values, rng.random(), self._count)
        insort(self._ordered, key)
        self._scored[self._count] = scored
        return key

    def remove(self, key: SortKey) -> None:
        """Remove a candidate by its sort key."""
        del self._ordered[bisect_left(self._ordered, key)], self._scored[key[-1]]

    def winner(self, rng: random.Random) -> ScoredCandidate:
        """Sample the winner of a tournament."""
        ordered = self._ordered
        if len(self._distribution) != len(ordered):
            self._distribution = winner_distribution(len(ordered), self._size, self._replacement)
        return self._scored[ordered[bisect_right(self._distribution, rng.random())][-1]]
