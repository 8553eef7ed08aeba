"""Architectures that use what they may cost.

Of a large space, hardly any architecture within a bound comes near it: what is drawn uniformly mostly costs far less,
and can do less. How many there are near it is counted, so that none has to be looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
from pydantic import Field, model_validator

from archir.diagnostics.errors import ArchError
from archir.ir.graph import Constraint
from archir.spaces.space import Space
from archir.utils.settings import Settings

ENOUGH = 1_000
"""Architectures, of which a search has something to choose from."""
DRAWN, FEW = 1_000, 20
"""Architectures that are drawn where they cannot be counted, and those of them that are enough: what is drawn near a
bound is found among others, then."""
STEP = Fraction(1, 10)
"""By which less of a bound is enough, until there are so many."""


class Within(Settings):
    """Which architectures a phase keeps to."""

    where: str = ""
    """Bounds on costs that all keep, beside those of the space: `macs <= 600M and params < 5M`, `macs <= 0.5x`."""
    use: float = Field(default=0.0, ge=0, le=1)
    """The part of a bound of `where` that each costs at least: with 0.9, all are near the bound, if enough are."""

    @model_validator(mode="after")
    def _has_bounds(self) -> Within:
        if self.use and not self.where:
            raise ValueError('`use` is a part of the bounds of `where`, which are missing: where = "macs <= 0.5x"')
        return self

    def within(self, space: Space) -> Space:
        """These architectures of a space. Raises ArchError (A1603) if there are none."""
        return near(space, self.where, self.use) if self.where else space


def near(space: Space, bounds: str, part: float) -> Space:
    """The architectures that keep bounds on costs, such as `macs <= 0.5x and params < 1M`, and cost at least `part` of
    one of these.

    Of several bounds it is the one that has the most architectures near it: a bound that others make needless is used
    by none. Where fewer than a thousand do, a tenth less of it is enough, or two. Bounds that are no ranges of costs
    that add up, such as those of peaks of memory, are kept, and nothing is used. Raises ArchError (A1603) for bounds
    that no architecture keeps.
    """
    within = space.where(bounds)
    if not part or not within.bounds.plain:
        return within
    within.prove()
    upper = upper_bounds(space, within)
    counted, enough = (_counted, ENOUGH) if within.bounds.followed else (_drawn(within), FEW)
    least = Fraction(part).limit_denominator(1000)
    while upper and least > 0:
        floors = [_floor(one, least) for one in upper]
        counts = [counted(within, floor) for floor in floors]
        if max(counts) >= enough:
            return _with(within, floors[counts.index(max(counts))])
        least -= STEP
    return within


def upper_bounds(space: Space, within: Space) -> list[Constraint]:
    """The bounds on costs that can be used: those that a space has beside those of another, and that are from above."""
    given = within.graph.constraints[len(space.graph.constraints) :]
    return [one for one in given if one.relation in ("<=", "<")]


def _floor(bound: Constraint, part: Fraction) -> Constraint:
    """That a part of a bound is used."""
    limit = ceil(part * int(bound.limit))
    return replace(bound, relation=">=", limit=limit, text=f"{bound.cost} >= {limit}")


def _with(within: Space, floor: Constraint) -> Space:
    graph = copy(within.graph)
    graph.constraints = [*within.graph.constraints, floor]
    return Space(graph)


def _counted(within: Space, floor: Constraint) -> int:
    """How many architectures there are, at least."""
    return _with(within, floor).count()[0]


def _drawn(within: Space) -> Callable[[Space, Constraint], int]:
    """How many there are among those that are drawn, always the same ones; none if these are hard to find."""
    try:
        codes = within.sample_codes(DRAWN, np.random.default_rng(0))
    except ArchError as error:
        if error.diagnostics[0].code != "A1005":
            raise
        return lambda within, floor: 0
    costs = within.cost(codes)
    return lambda within, floor: int((costs[str(floor.cost)] >= int(floor.limit)).sum())
