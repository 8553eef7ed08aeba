"""Which architectures a step of a supernet trains: functions of a generator, one for each way of training one.

Everything is a function of the generator, so that every process of a training trains the same.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from math import lcm

from archir.diagrams.cases import Choice
from archir.spaces.architecture import Architecture
from archir.spaces.partial import complete, largest, smallest
from archir.spaces.rows import Policy
from archir.spaces.space import Space

MOST_FAIR = 64
"""Architectures of a fair step, at most."""


def single(space: Space, rng: random.Random, policy: Policy = "choices", drawn: int = 1) -> list[Architecture]:
    """One, or some, drawn uniformly (Guo et al. 2020, single path one-shot)."""
    return [space.sample(rng, policy) for _ in range(drawn)]


def sandwich(
    space: Space, rng: random.Random, drawn: int = 2, first: Collection[str] = (), by: str = "macs"
) -> list[Architecture]:
    """The largest, the smallest, and some that are drawn uniformly (Yu et al. 2020, BigNAS).

    What the choices with the paths `first` come to is drawn before, once for all of them, each outcome as likely: Pi et
    al. (2021, TrioNet, section 3.4) call that hierarchical sampling. `by` is the cost that sizes are told by.
    """
    made = {c.path: rng.randrange(c.outcomes) for c in space.choices if c.path in first}
    others = [complete(space, made, rng, "choices") for _ in range(drawn)]
    return [largest(space, made, by), smallest(space, made, by), *others]


def fair(space: Space, rng: random.Random) -> list[Architecture]:
    """As many as there are alternatives, such that each alternative of each choice is in as many of them as any other
    of it (Chu et al. 2021, FairNAS), as far as choices are active.

    Choices that differ in their number of alternatives meet at the least common multiple, or at `MOST_FAIR` if that is
    less.
    """
    count = min(MOST_FAIR, lcm(*(choice.outcomes for choice in space.choices)))
    dealt = {choice.path: _dealt(choice, count, rng) for choice in space.choices}
    return [complete(space, {path: row[i] for path, row in dealt.items()}, rng, "choices") for i in range(count)]


def _dealt(choice: Choice, count: int, rng: random.Random) -> list[int]:
    """Permutations of the outcomes, one after the other."""
    found: list[int] = []
    while len(found) < count:
        found += rng.sample(range(choice.outcomes), choice.outcomes)
    return found[:count]
