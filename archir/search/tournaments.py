"""Tournaments: the best of some that are drawn. Where all are in order, one random number says which that is."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import comb

from archir.search.ask_tell import Scored

Place = tuple[float, ...]
"""Values, a random number, and how many were there before: no two are equal."""


@lru_cache(maxsize=256)
def chances(count: int, size: int, repetition: bool) -> Sequence[float]:
    """Of `count` in order, the probability that the first of `size` that are drawn has each place, or one before it."""
    if repetition:
        return [1.0 - ((count - place) / count) ** size for place in range(1, count)] + [1.0]
    size = min(size, count)
    whole = comb(count, size)
    return [ways / whole for ways in accumulate(comb(count - place, size - 1) for place in range(1, count + 1))]


def first(count: int, size: int, rng: random.Random) -> int:
    """The first of `size` places of `count` that are drawn, with repetition."""
    return bisect_right(chances(count, size, True), rng.random())


class Ranking:
    """Those that may be drawn, in order. Equal ones are in a random order."""

    def __init__(self, size: int, repetition: bool) -> None:
        self._size, self._repetition = size, repetition
        self._ordered: list[Place] = []
        self._scored: dict[float, Scored] = {}
        self._count = 0
        self._chances: Sequence[float] = ()

    def add(self, scored: Scored, rng: random.Random) -> Place:
        """One more; the place by which it is taken away again."""
        self._count += 1
        place = (*scored.values, rng.random(), self._count)
        insort(self._ordered, place)
        self._scored[self._count] = scored
        return place

    def remove(self, place: Place) -> None:
        """One less."""
        del self._ordered[bisect_left(self._ordered, place)], self._scored[place[-1]]

    def winner(self, rng: random.Random) -> Scored:
        """The best of those that are drawn."""
        ordered = self._ordered
        if len(self._chances) != len(ordered):
            self._chances = chances(len(ordered), self._size, self._repetition)
        return self._scored[ordered[bisect_right(self._chances, rng.random())][-1]]
