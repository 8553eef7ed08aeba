"""Restrict a space to architectures whose cost is close to a bound.

In a large space, hardly any of the architectures within a bound on a cost come close to that bound: uniform samples
mostly cost far less, and are less accurate. The number of architectures close to the bound is counted, so that they
can be sampled directly instead of by rejection.
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

MIN_ARCHITECTURES = 1_000
"""Minimum number of architectures close to a bound, so that a search has a choice."""
SAMPLES, MIN_SAMPLES = 1_000, 20
"""Number of sampled architectures, and the minimum number of these that must be close to the bound. Used instead of
`MIN_ARCHITECTURES` where architectures cannot be counted: sampling then finds enough architectures close to a bound."""
FRACTION_STEP = Fraction(1, 10)
"""Step by which the required fraction of a bound is lowered until enough architectures reach it."""


class CostBounds(Settings):
    """Settings of a phase that restrict it to architectures within bounds on costs."""

    where: str = ""
    """Bounds on costs that all architectures keep, in addition to those of the space: `macs <= 600M and params < 5M`,
    `macs <= 0.5x`."""
    min_budget_fraction: float = Field(default=0.0, ge=0, le=1)
    """Minimum cost, as a fraction of a bound of `where`. With 0.9, all architectures cost 90% of the bound or more, if
    there are enough of these."""

    @model_validator(mode="after")
    def _has_bounds(self) -> CostBounds:
        """Reject `min_budget_fraction` without `where`."""
        if self.min_budget_fraction and not self.where:
            raise ValueError(
                "`min_budget_fraction` is a fraction of a bound in `where`, which is missing: "
                'add where = "macs <= 0.5x"'
            )
        return self

    def within(self, space: Space) -> Space:
        """Return the space restricted to the bounds. Raises ArchError (A1603) if no architecture keeps them."""
        return restrict(space, self.where, self.min_budget_fraction) if self.where else space


def restrict(space: Space, bounds: str, min_fraction: float) -> Space:
    """Return the architectures that keep `bounds`, such as `macs <= 0.5x and params < 1M`, and cost at least the
    fraction `min_fraction` of one bound.

    If there are several bounds, the one with the most architectures close to it is used; no architecture comes close to
    a bound that is implied by the others. If fewer than a thousand architectures reach the fraction, it is lowered by
    0.1 until enough do. Bounds that are not plain ranges of summed costs, such as a bound on peak memory, are kept,
    without a minimum cost. Raises ArchError (A1603) if no architecture keeps the bounds.
    """
    within = space.where(bounds)
    if not min_fraction or not within.bounds.has_only_ranges:
        return within
    within.check_bounds()
    upper = upper_bounds(space, within)
    count, min_count = (
        (_count, MIN_ARCHITECTURES) if within.bounds.is_countable else (_sample_counter(within), MIN_SAMPLES)
    )
    fraction = Fraction(min_fraction).limit_denominator(1000)
    while upper and fraction > 0:
        minimums = [_min_cost(bound, fraction) for bound in upper]
        counts = [count(within, minimum) for minimum in minimums]
        if max(counts) >= min_count:
            return _with_constraint(within, minimums[counts.index(max(counts))])
        fraction -= FRACTION_STEP
    return within


def upper_bounds(space: Space, within: Space) -> list[Constraint]:
    """Return the upper bounds (`<=`, `<`) that `within` has in addition to the constraints of `space`."""
    added = within.graph.constraints[len(space.graph.constraints) :]
    return [bound for bound in added if bound.relation in ("<=", "<")]


def _min_cost(bound: Constraint, fraction: Fraction) -> Constraint:
    """Return the constraint that a cost is at least `fraction` of its upper bound, rounded up."""
    limit = ceil(fraction * int(bound.limit))
    return replace(bound, relation=">=", limit=limit, text=f"{bound.cost} >= {limit}")


def _with_constraint(within: Space, constraint: Constraint) -> Space:
    """Return the space with a further constraint."""
    graph = copy(within.graph)
    graph.constraints = [*within.graph.constraints, constraint]
    return Space(graph)


def _count(within: Space, constraint: Constraint) -> int:
    """Return a lower bound of the number of architectures that also satisfy `constraint`."""
    return _with_constraint(within, constraint).count()[0]


def _sample_counter(within: Space) -> Callable[[Space, Constraint], int]:
    """Return a function that counts the sampled architectures that also satisfy a constraint.

    The samples are the same in each call. The function returns 0 if architectures within the bounds are too rare to be
    sampled.
    """
    try:
        codes = within.sample_codes(SAMPLES, np.random.default_rng(0))
    except ArchError as error:
        if error.diagnostics[0].code != "A1005":
            raise
        return lambda within, floor: 0
    costs = within.cost(codes)
    return lambda within, floor: int((costs[str(floor.cost)] >= int(floor.limit)).sum())
