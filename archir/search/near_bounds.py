"""Restricts a space to architectures whose cost is close to a bound.

In a large space, hardly any architecture that satisfies an upper bound on a cost comes close to it: uniform
samples mostly cost far less and are less accurate. The architectures close to the bound are counted, so that
they can be sampled directly and not by rejection.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
from pydantic import Field, model_validator

from archir.ir.graph import Constraint
from archir.spaces.space import Space
from archir.utils.settings import Settings

MIN_ARCHITECTURES = 1_000
"""Minimum number of architectures close to a bound, so that a search has enough to choose from."""
SAMPLES, MIN_SAMPLES = 1_000, 20
"""Number of sampled architectures, and minimum number of them that must be close to the bound.

This replaces `MIN_ARCHITECTURES` if the architectures cannot be counted.
"""
FRACTION_STEP = Fraction(1, 10)
"""Step by which the minimum fraction of a bound is lowered until enough architectures reach it."""


class CostBounds(Settings):
    """Recipe settings that restrict a phase to architectures within cost bounds."""

    where: str = ""
    """Cost bounds for all architectures, in addition to those of the space: `macs <= 600M and params < 5M`, `macs <=
    0.5x`."""
    min_budget_fraction: float = Field(default=0.0, ge=0, le=1)
    """Minimum cost as a fraction of a bound in `where`. With 0.9, every architecture costs at least 90% of the
    bound, provided that enough architectures do; otherwise, the fraction is lowered."""

    @model_validator(mode="after")
    def _has_bounds(self) -> CostBounds:
        if self.min_budget_fraction and not self.where:
            raise ValueError(
                "`min_budget_fraction` is a fraction of a bound in `where`, which is missing: "
                'add where = "macs <= 0.5x"'
            )
        return self

    def within(self, space: Space) -> Space:
        """Return the space restricted to the bounds. Raises ArchError as `restrict` does."""
        return restrict(space, self.where, self.min_budget_fraction) if self.where else space


def restrict(space: Space, bounds: str, min_fraction: float) -> Space:
    """Restrict a space to architectures that satisfy `bounds` and cost at least `min_fraction` of one of them.

    `bounds` is a text such as `macs <= 0.5x and params < 1M`. If there are several upper bounds, the minimum applies to
    the bound with the most architectures close to it (a bound that the others imply has none). If fewer than 1,000
    architectures reach the fraction, the fraction is lowered in steps of 0.1. If a bound is not a plain range of a cost
    that is summed over nodes, such as a bound on peak memory, the bounds apply without a minimum cost. Raises
    ArchError: A1603 (no architecture satisfies the bounds), A1005 (those that do can only be sampled, and hardly any
    sample does).
    """
    within = space.where(bounds)
    if not min_fraction or not within.bounds.has_only_ranges:
        return within
    within.check_bounds()
    upper = upper_bounds(space, within)
    count = None if within.bounds.is_countable else _sample_counter(within)
    min_count = MIN_ARCHITECTURES if count is None else MIN_SAMPLES
    fraction = Fraction(min_fraction).limit_denominator(1000)
    while upper and fraction > 0:
        limits = [(bound, ceil(fraction * int(bound.limit))) for bound in upper]
        minimums = [replace(b, relation=">=", limit=limit, text=f"{b.cost} >= {limit}") for b, limit in limits]
        counts = [count(m) if count else _with_constraint(within, m).count()[0] for m in minimums]
        if max(counts) >= min_count:
            return _with_constraint(within, minimums[counts.index(max(counts))])
        fraction -= FRACTION_STEP
    return within


def upper_bounds(space: Space, within: Space) -> list[Constraint]:
    """Return the upper bounds (`<=`, `<`) among the constraints that `within` adds to those of `space`."""
    added = within.graph.constraints[len(space.graph.constraints) :]
    return [bound for bound in added if bound.relation in ("<=", "<")]


def _with_constraint(within: Space, constraint: Constraint) -> Space:
    graph = copy(within.graph)
    graph.constraints = [*within.graph.constraints, constraint]
    return Space(graph)


def _sample_counter(within: Space) -> Callable[[Constraint], int]:
    """Return a function that counts how many of SAMPLES random architectures satisfy a constraint.

    Every call uses the same samples.
    """
    costs = within.cost(within.sample_codes(SAMPLES, np.random.default_rng(0)))
    return lambda minimum: int((costs[str(minimum.cost)] >= int(minimum.limit)).sum())
