"""Children of architectures. Constraints on choices hold of all of them; bounds on costs may be broken.

A child is decided choice by choice, each after those it is conditional on. A choice that is active in the child, but
was not in a parent it could be taken from, is drawn: each of the outcomes that the constraints leave is as likely.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import log1p

from archir.search.spaces.architecture import Architecture
from archir.search.spaces.space import Space

DRAWN = -1
MOST_CHOICES = 1_000_000_000
"""More than any space has."""
FEW_TRIES = 20
"""For a choice that is open, before all of them are listed."""
MOST_NEIGHBOURS = 1_000
"""Places to go to from an architecture, of which more are not listed."""


def redrawn(space: Space, parent: Architecture, rng: random.Random, probability: float) -> Architecture:
    """A child that has each choice drawn anew with a probability, and from its parent otherwise."""
    wishes = list(parent.codes)
    place = _gap(rng, probability)
    while place < len(wishes):
        wishes[place] = DRAWN
        place += 1 + _gap(rng, probability)
    return space.near(wishes, rng)


def _gap(rng: random.Random, probability: float) -> int:
    """How many choices are left as they are before the next one that is not."""
    if probability in (0, 1):
        return 0 if probability else MOST_CHOICES
    return int(min(log1p(-rng.random()) / log1p(-probability), MOST_CHOICES))


def moved(space: Space, parent: Architecture, rng: random.Random) -> Architecture:
    """A child with another outcome of one choice of its parent; it differs in more where the constraints, or choices
    that this turns on, make it. The parent itself if it has no choice."""
    place = _open(space, parent, rng)
    if place is None:
        return parent
    outcome = rng.randrange(space.choices[place].outcomes - 1)
    wishes = list(parent.codes)
    wishes[place] = outcome + (outcome >= wishes[place])
    return space.decode(wishes) if space.apart(place) else space.near(wishes, rng)


def _open(space: Space, parent: Architecture, rng: random.Random) -> int | None:
    """A choice of an architecture that has several outcomes; each is as likely."""
    codes, choices = parent.codes, space.choices
    for _ in range(FEW_TRIES if codes else 0):
        place = int(rng.random() * len(codes))
        if codes[place] >= 0 and choices[place].outcomes > 1:
            return place
    places = [i for i, code in enumerate(codes) if code >= 0 and choices[i].outcomes > 1]
    return rng.choice(places) if places else None


def neighbours(space: Space, parent: Architecture, rng: random.Random) -> Iterator[Architecture]:
    """Children that differ in one choice, as of `moved`, in a random order and each move once; of very many moves,
    some."""
    open_ = [i for i, code in enumerate(parent.codes) if code >= 0]
    if sum(space.choices[i].outcomes - 1 for i in open_) > MOST_NEIGHBOURS:
        yield from (moved(space, parent, rng) for _ in range(MOST_NEIGHBOURS))
        return
    moves = [(i, to) for i in open_ for to in range(space.choices[i].outcomes) if to != parent.codes[i]]
    rng.shuffle(moves)
    for place, outcome in moves:
        wishes = list(parent.codes)
        wishes[place] = outcome
        yield space.near(wishes, rng)


def mutated(space: Space, parent: Architecture, rng: random.Random, probability: float | None) -> Architecture:
    """`redrawn` with a probability, else `moved`."""
    return moved(space, parent, rng) if probability is None else redrawn(space, parent, rng, probability)


def crossed(space: Space, one: Architecture, other: Architecture, rng: random.Random) -> Architecture:
    """A child that has each choice from either parent, as likely, of those in which the choice is active."""
    sides = f"{rng.getrandbits(len(one.codes)):0{len(one.codes)}b}" if one.codes else ""
    pairs = zip(one.codes, other.codes, sides, strict=True)
    wishes = [(a if a >= 0 else b) if side == "1" else (b if b >= 0 else a) for a, b, side in pairs]
    return space.near(wishes, rng)
