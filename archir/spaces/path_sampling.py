"""Sampling of the architectures (paths) that one training step of a supernet trains.

There is one function per training method. All results depend only on the random generator, so that all processes of a
distributed training train the same architectures.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from math import lcm

from archir.diagrams.diagram import Choice
from archir.spaces.architecture import Architecture
from archir.spaces.completion import complete, largest, sample_fixed, smallest
from archir.spaces.rows import Policy
from archir.spaces.space import Space

MAX_FAIR_ARCHITECTURES = 64
"""Maximum number of architectures per step of fair sampling."""


def single(space: Space, rng: random.Random, policy: Policy = "choices", samples: int = 1) -> list[Architecture]:
    """Return `samples` uniformly sampled architectures (Guo et al. 2020, single path one-shot)."""
    return [space.sample(rng, policy) for _ in range(samples)]


def sandwich(
    space: Space,
    rng: random.Random,
    samples: int = 2,
    shared: Collection[str] = (),
    by: str = "macs",
    policy: Policy = "choices",
) -> list[Architecture]:
    """Return the largest and the smallest architecture, and `samples` uniformly sampled ones (sandwich rule).

    See Yu et al. 2020, BigNAS. The choices with paths in `shared` are sampled first, each uniformly over its possible
    outcomes, and have the same outcomes in all of these architectures where they are active, which Pi et al. (2021,
    TrioNet, section 3.4) call hierarchical sampling. Only tight bounds on costs may lead to other outcomes (see
    `largest` and `sample_fixed`). `by` is the cost that defines largest and smallest, `policy` the distribution of the
    sampled architectures.
    """
    drawn = space.sample(rng, "choices").outcomes if shared else {}
    paths = [choice.path for choice in space.choices if choice.path in shared]
    fixed = {path: drawn[path] if path in drawn else _any_outcome(space, path, rng) for path in paths}
    others = sample_fixed(space, fixed, samples, rng, policy)
    return [largest(space, fixed, by), smallest(space, fixed, by), *others]


def _any_outcome(space: Space, path: str, rng: random.Random) -> int:
    """Return a sampled outcome for a choice that is inactive in the architecture that defines the shared outcomes."""
    return rng.choice(space.possible_outcomes[path] or [0])


def fair(space: Space, rng: random.Random) -> list[Architecture]:
    """Return architectures with equal frequencies of a choice's alternatives (Chu et al. 2021, FairNAS).

    The number of architectures is the number of alternatives per choice. If choices differ in their number of
    alternatives, it is the least common multiple of these numbers, but at most `MAX_FAIR_ARCHITECTURES`. If a choice is
    not active in some of the architectures, the frequencies of its alternatives may differ.
    """
    count = min(MAX_FAIR_ARCHITECTURES, lcm(*(choice.outcome_count for choice in space.choices)))
    rows = {choice.path: _permuted_outcomes(choice, count, rng) for choice in space.choices}
    return [complete(space, {path: row[i] for path, row in rows.items()}, rng, "choices") for i in range(count)]


def _permuted_outcomes(choice: Choice, count: int, rng: random.Random) -> list[int]:
    """Return `count` outcomes of a choice: concatenated random permutations of all its outcomes."""
    outcomes: list[int] = []
    while len(outcomes) < count:
        outcomes += rng.sample(range(choice.outcome_count), choice.outcome_count)
    return outcomes[:count]
