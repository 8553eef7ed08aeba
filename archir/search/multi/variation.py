"""Children of architectures. Constraints on choices hold of all of them; bounds on costs may be broken.

A child is decided choice by choice, each after those it is conditional on. A choice that is active in the child, but
was not in a parent it could be taken from, is drawn: each of the outcomes that the constraints leave is as likely.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from archir.search.spaces.architecture import Architecture
from archir.search.spaces.space import Space

DRAWN = -1
MOST_NEIGHBOURS = 1_000
"""Places to go to from an architecture, of which more are not listed."""


def redrawn(space: Space, parent: Architecture, rng: random.Random, probability: float) -> Architecture:
    """A child that has each choice drawn anew with a probability, and from its parent otherwise."""
    return space.near([DRAWN if rng.random() < probability else code for code in parent.codes], rng)


def moved(space: Space, parent: Architecture, rng: random.Random) -> Architecture:
    """A child with another outcome of one choice of its parent; it differs in more where the constraints, or choices
    that this turns on, make it. The parent itself if it has no choice."""
    places = [i for i, code in enumerate(parent.codes) if code >= 0 and space.choices[i].outcomes > 1]
    wishes = list(parent.codes)
    if places:
        place = rng.choice(places)
        outcome = rng.randrange(space.choices[place].outcomes - 1)
        wishes[place] = outcome + (outcome >= wishes[place])
    return space.near(wishes, rng)


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
    wishes = []
    for pair in zip(one.codes, other.codes, strict=True):
        wish = pair[rng.random() < 0.5]
        wishes.append(wish if wish >= 0 else max(pair))
    return space.near(wishes, rng)
