"""Tournament selection, mutation and crossover of architectures.

Children satisfy the constraints on choices, but may break cost bounds. The functions named `..._codes` map
codes to codes, so that a search needs no `Architecture` objects for children it has seen before.

The choices of a child are made in an order in which each choice follows those it is conditional on. A choice
that is active in the child, but not in the parent it would be copied from, is sampled uniformly from the
outcomes that the constraints allow.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from math import comb, log1p
from operator import getitem

from archir.search.ask_tell import ScoredCandidate
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space, random_fallback

OutcomeCodes = tuple[int, ...]
"""Outcome index of each choice of an architecture; -1 for inactive choices."""
RESAMPLE = -2
"""Preferred outcome that marks a choice to be resampled; no outcome has this index."""
MAX_GAP = 1_000_000_000
"""Cap on sampled gaps between mutated choices; larger than the number of choices of any space."""
MAX_TRIES = 20
"""Maximum number of random indices tried to hit an active choice before the active choices are listed, and of random
changes tried until the constraints do not undo one."""
MAX_NEIGHBOURS = 1_000
"""Maximum number of neighbours that are enumerated; if there are more, this many are sampled."""


def resample_codes(space: Space, parent: OutcomeCodes, rng: random.Random, probability: float) -> OutcomeCodes:
    """Return a mutant: each choice is resampled with the given probability, else copied from the parent."""
    position, count = _sample_gap(rng, probability), len(parent)
    if position >= count:
        return parent
    preferred = list(parent)
    while position < count:
        preferred[position] = RESAMPLE
        position += 1 + _sample_gap(rng, probability)
    return space.repair_codes(preferred, random_fallback(rng))


def _sample_gap(rng: random.Random, probability: float) -> int:
    """Sample how many choices are copied before the next one is resampled (geometric distribution)."""
    if probability in (0, 1):
        return 0 if probability else MAX_GAP
    return int(min(log1p(-rng.random()) / log1p(-probability), MAX_GAP))


def moved(space: Space, parent: Architecture, rng: random.Random) -> Architecture:
    """Return a mutant in which one random choice has another outcome.

    More choices change if the constraints require it, or if the new outcome activates other choices. Returns the
    parent if it has no choice to change, or if the constraints undo all of `MAX_TRIES` random changes.
    """
    return space.decode(moved_codes(space, parent.codes, rng))


def moved_codes(space: Space, parent: OutcomeCodes, rng: random.Random) -> OutcomeCodes:
    """Like `moved`, on codes."""
    for _ in range(MAX_TRIES):
        position = _sample_position(space, parent, rng)
        if position is None:
            break
        outcome = int(rng.random() * (space.outcome_counts[position] - 1))
        child = _changed_codes(space, parent, position, outcome + (outcome >= parent[position]), rng)
        if child != parent:
            return child
    return parent


def _sample_position(space: Space, parent: OutcomeCodes, rng: random.Random) -> int | None:
    """Sample an active choice with several outcomes; None if there is none."""
    outcomes, count = space.outcome_counts, len(parent)
    for _ in range(MAX_TRIES if count else 0):
        position = int(rng.random() * count)
        if parent[position] >= 0 and outcomes[position] > 1:
            return position
    positions = [i for i, code in enumerate(parent) if code >= 0 and outcomes[i] > 1]
    return rng.choice(positions) if positions else None


def _changed_codes(space: Space, parent: OutcomeCodes, position: int, outcome: int, rng: random.Random) -> OutcomeCodes:
    """Return the parent with another outcome of one choice, and with the changes of later choices that this requires.

    If earlier choices and the constraints exclude the outcome, an allowed one is sampled, which may be the parent's.
    """
    preferred = list(parent)
    preferred[position] = outcome
    return tuple(preferred) if space.is_independent[position] else space.repair_codes(preferred, random_fallback(rng))


def neighbours(space: Space, parent: Architecture, rng: random.Random) -> Iterator[Architecture]:
    """Yield the mutants that `moved` can return, in random order: one for each change that the constraints do not undo.

    If there are more than `MAX_NEIGHBOURS` changes, yield the mutants of that many random ones, possibly with
    repetitions.
    """
    active = [i for i, code in enumerate(parent.codes) if code >= 0]
    if sum(space.outcome_counts[i] - 1 for i in active) > MAX_NEIGHBOURS:
        children = (moved_codes(space, parent.codes, rng) for _ in range(MAX_NEIGHBOURS))
    else:
        moves = [(i, to) for i in active for to in range(space.outcome_counts[i]) if to != parent.codes[i]]
        rng.shuffle(moves)
        children = (_changed_codes(space, parent.codes, position, outcome, rng) for position, outcome in moves)
    yield from (space.decode(codes) for codes in children if codes != parent.codes)


def crossover_codes(
    space: Space, first: OutcomeCodes, second: OutcomeCodes, rng: random.Random, probability: float = 0.0
) -> OutcomeCodes:
    """Return a crossover: each choice is copied from one of the parents with equal probability, or resampled with the
    given probability.

    A choice that is active in only one parent is copied from that parent.
    """
    if first == second:
        return resample_codes(space, first, rng, probability)
    count = len(first)
    sides = f"{rng.getrandbits(count):0{count}b}".encode().translate(_BITS)
    preferred = [*map(getitem, zip(first, second, strict=True), sides)]
    position = _sample_gap(rng, probability)
    while position < count:
        preferred[position] = RESAMPLE
        position += 1 + _sample_gap(rng, probability)
    sample = random_fallback(rng)

    def fallback(position: int, possible: Sequence[int]) -> int:
        """Make a choice that cannot be copied from the selected parent: copy it from the other parent if possible, else
        sample."""
        outcome = max(first[position], second[position]) if preferred[position] == -1 else -1
        return outcome if outcome in possible else sample(position, possible)

    return space.repair_codes(preferred, fallback)


_BITS = bytes(int(chr(i) == "1") for i in range(256))
"""Translation table from the characters "0" and "1" to bytes 0 and 1."""


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
