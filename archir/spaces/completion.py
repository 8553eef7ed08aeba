"""Completion of partially fixed architectures: the smallest, the largest, or a sampled one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import numpy as np

from archir.costs.extremes.witnesses import extreme
from archir.diagnostics.errors import fail
from archir.spaces.architecture import Architecture
from archir.spaces.rows import Policy
from archir.spaces.space import Space

FixedOutcomes = Mapping[str, int]
"""Fixed outcomes of choices, by path; they apply where the choices are active."""

MAX_SAMPLES = 200
"""Maximum number of architectures that are sampled to find one that satisfies the bounds on costs."""


def complete(space: Space, fixed: FixedOutcomes, rng: random.Random, policy: Policy = "architectures") -> Architecture:
    """Return an architecture whose choices are made in order: with the fixed outcome if the choices before it allow it,
    otherwise sampled as by `Space.sample`.

    If none of MAX_SAMPLES samples satisfies the bounds on costs, the result is sampled without fixed outcomes.
    """
    return _first_within(space, lambda: space.decode(space.complete_codes(fixed, rng, policy)), rng, policy)


def sample_fixed(
    space: Space, fixed: FixedOutcomes, count: int, rng: random.Random, policy: Policy = "architectures"
) -> list[Architecture]:
    """Sample `count` of the architectures in which the choices in `fixed` have these outcomes where they are active.

    They are sampled as by `Space.sample`. If none of MAX_SAMPLES samples satisfies the bounds on costs, an architecture
    is sampled without fixed outcomes. Raises ArchError (A0510) if constraints allow no architecture with the fixed
    outcomes.
    """
    return [_first_within(space, lambda: space.sample_fixed(fixed, rng, policy), rng, policy) for _ in range(count)]


def _first_within(space: Space, draw: Callable[[], Architecture], rng: random.Random, policy: Policy) -> Architecture:
    """Return the first of MAX_SAMPLES drawn architectures within the bounds on costs, or else a sample of the space."""
    for _ in range(MAX_SAMPLES):
        architecture = draw()
        if space.within(architecture):
            return architecture
    return space.sample(rng, policy)


def largest(space: Space, fixed: FixedOutcomes | None = None, by: str = "macs") -> Architecture:
    """Return the architecture within all bounds that has the highest cost `by`.

    Of several architectures with the same cost, the one with the last outcomes is returned. If outcomes are fixed and
    the most expensive architecture with them violates the bounds, the fixed outcomes are ignored, and the most
    expensive of many samples is returned. Raises ArchError (A0510, A1603).
    """
    return _extreme(space, fixed or {}, by, -1)


def smallest(space: Space, fixed: FixedOutcomes | None = None, by: str = "macs") -> Architecture:
    """Return the architecture within all bounds that has the lowest cost `by`.

    Of several architectures with the same cost, the one with the first outcomes is returned. If outcomes are fixed and
    the cheapest architecture with them violates the bounds, the fixed outcomes are ignored, and the cheapest of many
    samples is returned. Raises ArchError (A0510, A1603).
    """
    return _extreme(space, fixed or {}, by, 1)


def _extreme(space: Space, fixed: FixedOutcomes, by: str, sign: int) -> Architecture:
    """Return the architecture within all bounds that minimises the cost `by` times `sign`."""
    columns = {i: fixed[choice.path] for i, choice in enumerate(space.choices) if choice.path in fixed}
    result = extreme(space.bounds.account.chain(by), 0, sign, columns)
    if result is None or result.codes is None:
        raise fail("A0510", "no architecture satisfies the constraints")
    architecture = space.decode(result.codes)
    if not space.has_cost_bounds or space.within(architecture):
        return architecture
    if not fixed and (codes := space.account.extreme(by, sign).codes) is not None:
        return space.decode(codes)
    return _extreme_of_samples(space, by, sign)


def _extreme_of_samples(space: Space, by: str, sign: int) -> Architecture:
    """Return the architecture that minimises the cost `by` times `sign`, of MAX_SAMPLES samples within the bounds."""
    codes = space.sample_codes(MAX_SAMPLES, np.random.default_rng(0))
    costs = np.asarray(space.bounds.account.at(codes, [by])[by])
    return space.decode(codes[int(np.argmin(sign * costs))])
