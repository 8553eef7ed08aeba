"""Mutation and crossover of architectures.

Children satisfy the constraints on choices, but may break cost bounds. The functions named `..._codes` map
codes to codes, so that a search needs no `Architecture` objects for children it has seen before.

The choices of a child are made in an order in which each choice follows those it is conditional on. A choice
that is active in the child, but not in the parent it would be copied from, is sampled uniformly from the
outcomes that the constraints allow.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import log1p
from operator import getitem

from archir.spaces.architecture import Architecture
from archir.spaces.space import Space, random_fallback

Codes = tuple[int, ...]
"""Outcome index of each choice of an architecture; -1 for inactive choices."""
RESAMPLE = -2
"""Preferred outcome that marks a choice to be resampled; no outcome has this index."""
MAX_GAP = 1_000_000_000
"""Cap on sampled gaps between mutated choices; larger than the number of choices of any space."""
MAX_TRIES = 20
"""Maximum number of random indices tried to hit an active choice before the active choices are listed."""
MAX_NEIGHBOURS = 1_000
"""Maximum number of neighbours that are enumerated; if there are more, this many are sampled."""


def resample_choices(space: Space, parent: Architecture, rng: random.Random, probability: float) -> Architecture:
    """Return a mutant: each choice is resampled with the given probability, else copied from the parent."""
    return space.decode(resample_codes(space, parent.codes, rng, probability))


def resample_codes(space: Space, parent: Codes, rng: random.Random, probability: float) -> Codes:
    """Like `resample_choices`, on codes."""
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
    """Return a mutant in which one random choice has another outcome; the parent itself if it has no choice to
    change.

    More choices change if the constraints require it, or if the new outcome activates other choices.
    """
    return space.decode(moved_codes(space, parent.codes, rng))


def moved_codes(space: Space, parent: Codes, rng: random.Random) -> Codes:
    """Like `moved`, on codes."""
    outcomes, count = space.outcome_counts, len(parent)
    for _ in range(MAX_TRIES if count else 0):
        position = int(rng.random() * count)
        if parent[position] >= 0 and outcomes[position] > 1:
            break
    else:
        positions = [i for i, code in enumerate(parent) if code >= 0 and outcomes[i] > 1]
        if not positions:
            return parent
        position = rng.choice(positions)
    outcome = int(rng.random() * (outcomes[position] - 1))
    preferred = list(parent)
    preferred[position] = outcome + (outcome >= parent[position])
    return tuple(preferred) if space.is_independent[position] else space.repair_codes(preferred, random_fallback(rng))


def neighbours(space: Space, parent: Architecture, rng: random.Random) -> Iterator[Architecture]:
    """Yield all mutants that `moved` can return, in random order, each change once.

    If there are more than `MAX_NEIGHBOURS`, yield that many random ones, possibly with repetitions.
    """
    active = [i for i, code in enumerate(parent.codes) if code >= 0]
    if sum(space.outcome_counts[i] - 1 for i in active) > MAX_NEIGHBOURS:
        yield from (moved(space, parent, rng) for _ in range(MAX_NEIGHBOURS))
        return
    moves = [(i, to) for i in active for to in range(space.outcome_counts[i]) if to != parent.codes[i]]
    rng.shuffle(moves)
    for position, outcome in moves:
        preferred = list(parent.codes)
        preferred[position] = outcome
        yield space.repair(preferred, rng)


def crossover(space: Space, first: Architecture, second: Architecture, rng: random.Random) -> Architecture:
    """Return a crossover: each choice is copied from one of the parents with equal probability.

    A choice that is active in only one parent is copied from that parent.
    """
    return space.decode(crossover_codes(space, first.codes, second.codes, rng))


def crossover_codes(space: Space, first: Codes, second: Codes, rng: random.Random, probability: float = 0.0) -> Codes:
    """Like `crossover`, on codes, with each choice resampled with the given probability."""
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
