"""Architectures of which some choices are made: the smallest, the largest, any."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np

from archir.costs.extremes.witnesses import extreme
from archir.diagnostics.errors import fail
from archir.spaces.architecture import Architecture
from archir.spaces.rows import Policy
from archir.spaces.space import Space

Made = Mapping[str, int]
"""Outcomes of choices by path. They hold where the choices are active, and as far as constraints leave them."""

MOST_DRAWN = 200
"""Architectures that are drawn until one keeps the bounds on costs."""


def complete(space: Space, made: Made, rng: random.Random, policy: Policy = "architectures") -> Architecture:
    """An architecture in which the other choices are drawn, as `Space.sample` draws them.

    Where bounds on costs leave none in many draws, one of all that keep them is drawn, whatever was made.
    """
    for _ in range(MOST_DRAWN):
        architecture = space.decode(space.completed(made, rng, policy))
        if not space.bounded or space.within(architecture):
            return architecture
    return space.sample(rng, policy)


def largest(space: Space, made: Made | None = None, by: str = "macs") -> Architecture:
    """The architecture within all bounds that costs the most; of equals, the one with the last outcomes.

    With some outcomes `made`, if bounds leave the greatest one out: of many draws. Raises ArchError (A0510, A1603).
    """
    return _extreme(space, made or {}, by, -1)


def smallest(space: Space, made: Made | None = None, by: str = "macs") -> Architecture:
    """The architecture within all bounds that costs the least; of equals, the one with the first outcomes.

    With some outcomes `made`, if bounds leave the least one out: of many draws. Raises ArchError (A0510, A1603).
    """
    return _extreme(space, made or {}, by, 1)


def _extreme(space: Space, made: Made, by: str, sign: int) -> Architecture:
    fixed = {i: made[choice.path] for i, choice in enumerate(space.choices) if choice.path in made}
    found = extreme(space.bounds.account.chain(by), 0, sign, fixed)
    if found is None or found.codes is None:
        raise fail("A0510", "no architecture satisfies the constraints")
    architecture = space.decode(found.codes)
    if not space.bounded or space.within(architecture):
        return architecture
    if not made and (codes := space.account.end(by, sign).codes) is not None:
        return space.decode(codes)
    return _drawn(space, by, sign)


def _drawn(space: Space, by: str, sign: int) -> Architecture:
    """The most extreme of many architectures that keep the bounds."""
    codes = space.sample_codes(MOST_DRAWN, np.random.default_rng(0))
    costs = np.asarray(space.bounds.account.at(codes, [by])[by])
    return space.decode(codes[int(np.argmin(sign * costs))])
