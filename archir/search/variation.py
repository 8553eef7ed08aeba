"""Children of architectures. Constraints on choices hold of all of them; bounds on costs may be broken.

Functions of codes make codes: of children that were met before, searches make no architectures.

A child is decided choice by choice, each after those it is conditional on. A choice that is active in the child, but
was not in a parent it could be taken from, is drawn: each of the outcomes that the constraints leave is as likely.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import log1p
from operator import getitem

from archir.spaces.architecture import Architecture
from archir.spaces.space import Space, drawing

Codes = tuple[int, ...]
"""Of an architecture."""
ANEW = -2
"""What is wished for where an outcome is to be drawn."""
MOST_CHOICES = 1_000_000_000
"""More than any space has."""
FEW_TRIES = 20
"""For a choice that is open, before all of them are listed."""
MOST_NEIGHBOURS = 1_000
"""Places to go to from an architecture, of which more are not listed."""


def redrawn(space: Space, parent: Architecture, rng: random.Random, probability: float) -> Architecture:
    """A child that has each choice drawn anew with a probability, and from its parent otherwise."""
    return space.decode(redrawn_codes(space, parent.codes, rng, probability))


def redrawn_codes(space: Space, parent: Codes, rng: random.Random, probability: float) -> Codes:
    """The codes of `redrawn`."""
    place, count = _gap(rng, probability), len(parent)
    if place >= count:
        return parent
    wishes = list(parent)
    while place < count:
        wishes[place] = ANEW
        place += 1 + _gap(rng, probability)
    return space.nearest(wishes, drawing(rng))


def _gap(rng: random.Random, probability: float) -> int:
    """How many choices are left as they are before the next one that is not."""
    if probability in (0, 1):
        return 0 if probability else MOST_CHOICES
    return int(min(log1p(-rng.random()) / log1p(-probability), MOST_CHOICES))


def moved(space: Space, parent: Architecture, rng: random.Random) -> Architecture:
    """A child with another outcome of one choice of its parent; it differs in more where the constraints, or choices
    that this turns on, make it. The parent itself if it has no choice."""
    return space.decode(moved_codes(space, parent.codes, rng))


def moved_codes(space: Space, parent: Codes, rng: random.Random) -> Codes:
    """The codes of `moved`."""
    outcomes, count = space.outcomes, len(parent)
    for _ in range(FEW_TRIES if count else 0):
        place = int(rng.random() * count)
        if parent[place] >= 0 and outcomes[place] > 1:
            break
    else:
        places = [i for i, code in enumerate(parent) if code >= 0 and outcomes[i] > 1]
        if not places:
            return parent
        place = rng.choice(places)
    outcome = int(rng.random() * (outcomes[place] - 1))
    wishes = list(parent)
    wishes[place] = outcome + (outcome >= parent[place])
    return tuple(wishes) if space.apart[place] else space.nearest(wishes, drawing(rng))


def neighbours(space: Space, parent: Architecture, rng: random.Random) -> Iterator[Architecture]:
    """Children that differ in one choice, as of `moved`, in a random order and each move once; of very many moves,
    some."""
    open_ = [i for i, code in enumerate(parent.codes) if code >= 0]
    if sum(space.outcomes[i] - 1 for i in open_) > MOST_NEIGHBOURS:
        yield from (moved(space, parent, rng) for _ in range(MOST_NEIGHBOURS))
        return
    moves = [(i, to) for i in open_ for to in range(space.outcomes[i]) if to != parent.codes[i]]
    rng.shuffle(moves)
    for place, outcome in moves:
        wishes = list(parent.codes)
        wishes[place] = outcome
        yield space.near(wishes, rng)


def crossed(space: Space, one: Architecture, other: Architecture, rng: random.Random) -> Architecture:
    """A child that has each choice from either parent, as likely, of those in which the choice is active."""
    return space.decode(crossed_codes(space, one.codes, other.codes, rng))


def crossed_codes(space: Space, one: Codes, other: Codes, rng: random.Random, probability: float = 0.0) -> Codes:
    """The codes of `crossed`, where each choice is drawn anew with a probability."""
    if one == other:
        return redrawn_codes(space, one, rng, probability)
    count = len(one)
    sides = f"{rng.getrandbits(count):0{count}b}".encode().translate(_BITS)
    wishes = [*map(getitem, zip(one, other, strict=True), sides)]
    place = _gap(rng, probability)
    while place < count:
        wishes[place] = ANEW
        place += 1 + _gap(rng, probability)
    drawn = drawing(rng)

    def otherwise(place: int, possible: Sequence[int]) -> int:
        """Of what the parent does not have that it would be taken from: that of the other one."""
        wish = max(one[place], other[place]) if wishes[place] == -1 else -1
        return wish if wish in possible else drawn(place, possible)

    return space.nearest(wishes, otherwise)


_BITS = bytes(int(chr(i) == "1") for i in range(256))
