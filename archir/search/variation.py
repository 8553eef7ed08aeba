"""Mutation and crossover of architectures.

Children satisfy the constraints on choices, but may break bounds on costs. The functions named `..._codes` map codes
to codes: a search needs no `Architecture` objects for children that it has seen before.

A child is decided choice by choice, in an order in which each choice follows those that it is conditional on. A choice
that is active in the child, but not in the parent that it would be copied from, is sampled uniformly from the outcomes
that the constraints allow.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import log1p
from operator import getitem

from archir.spaces.architecture import Architecture
from archir.spaces.space import Space, random_fallback

Codes = tuple[int, ...]
"""Outcomes of an architecture's choices, -1 for inactive choices."""
RESAMPLE = -2
"""Preferred outcome of a choice that shall be sampled: no outcome has this number."""
MAX_GAP = 1_000_000_000
"""Gap that is larger than the number of choices of any space."""
MAX_TRIES = 20
"""Maximum number of random positions tried to hit an active choice, before all active choices are listed."""
MAX_NEIGHBOURS = 1_000
"""Maximum number of neighbours that are enumerated; of architectures with more, as many are sampled."""


def resample_choices(space: Space, parent: Architecture, rng: random.Random, probability: float) -> Architecture:
    """Return a child in which each choice is resampled with the given probability, and else copied from the parent."""
    return space.decode(resample_codes(space, parent.codes, rng, probability))


def resample_codes(space: Space, parent: Codes, rng: random.Random, probability: float) -> Codes:
    """Return the codes of the child that `resample_choices` returns."""
    position, count = _sample_gap(rng, probability), len(parent)
    if position >= count:
        return parent
    preferred = list(parent)
    while position < count:
        preferred[position] = RESAMPLE
        position += 1 + _sample_gap(rng, probability)
    return space.repair_codes(preferred, random_fallback(rng))


def _sample_gap(rng: random.Random, probability: float) -> int:
    """Sample the number of choices that are copied before the next choice that is resampled: geometrically
    distributed."""
    if probability in (0, 1):
        return 0 if probability else MAX_GAP
    return int(min(log1p(-rng.random()) / log1p(-probability), MAX_GAP))


def moved(space: Space, parent: Architecture, rng: random.Random) -> Architecture:
    """Return a child with another outcome of one random choice; the parent itself if it has no choice.

    More choices differ if the constraints require it, or if the move activates further choices.
    """
    return space.decode(moved_codes(space, parent.codes, rng))


def moved_codes(space: Space, parent: Codes, rng: random.Random) -> Codes:
    """Return the codes of the child that `moved` returns."""
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
    """Yield the children that differ in one choice, as `moved` returns them, in random order and each move once.

    If there are more than `MAX_NEIGHBOURS` moves, as many random ones are yielded, perhaps some twice.
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
    """Return a child that takes each choice from either parent with equal probability; a choice that is active in only
    one parent is taken from that parent."""
    return space.decode(crossover_codes(space, first.codes, second.codes, rng))


def crossover_codes(space: Space, first: Codes, second: Codes, rng: random.Random, probability: float = 0.0) -> Codes:
    """Return the codes of the child that `crossover` returns, with each choice resampled with a probability."""
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
        """Decide a choice that the selected parent cannot: take the other parent's outcome if possible, else sample."""
        outcome = max(first[position], second[position]) if preferred[position] == -1 else -1
        return outcome if outcome in possible else sample(position, possible)

    return space.repair_codes(preferred, fallback)


_BITS = bytes(int(chr(i) == "1") for i in range(256))
"""Translation table from the characters "0" and "1" to the bytes 0 and 1."""
