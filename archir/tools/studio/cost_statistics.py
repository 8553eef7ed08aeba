"""Cost statistics of a space for the studio: histograms, counts within bounds, and mean costs of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archir.costs.account import MAX_SHOWN_TOTALS
from archir.diagnostics.errors import LimitError
from archir.diagnostics.work import fresh_budget
from archir.spaces.space import Space

BARS = 32
"""Number of bars of a histogram."""
Ranges = Mapping[str, tuple[int, int]]
"""Minimum and maximum allowed value (both inclusive) by cost."""


def cost_histogram(space: Space, name: str) -> dict[str, Any]:
    """Return the minimum and maximum of a cost over a space, and a histogram with BARS bars of equal width.

    Heights of the bars are relative to the highest bar. If the distribution is too expensive to compute (A1601, A1602
    or the work budget), `bars` is empty and `why` is the error message.
    """
    with fresh_budget():
        least, greatest = (extreme.bound for extreme in space.account.extremes(name))
    result: dict[str, Any] = {"least": str(least), "greatest": str(greatest), "bars": [], "why": None}
    try:
        with fresh_budget():
            distribution = space.account.distribution(name, least, greatest, MAX_SHOWN_TOTALS)
            edges = [least + (greatest - least) * i // BARS for i in range(BARS + 1)]
            counts = [distribution.count(edges[i] + (i > 0), edges[i + 1])[1] for i in range(BARS)]
            median = distribution.quantiles([0.5])[0]
    except LimitError as error:
        return result | {"why": error.diagnostics[0].message}
    most = max(counts)
    return result | {
        "bars": [count / most for count in counts], "edges": list(map(str, edges)), "median": str(median),
    }  # fmt: skip


def count_within(space: Space, ranges: Ranges) -> tuple[int, int]:
    """Return bounds on the number of valid architectures whose costs are in `ranges`.

    The lower and upper bound are equal, and the number exact, unless there are so many distinct cost totals that they
    had to be merged.
    """
    bounds, account = space.bounds, space.bounds.account
    combined = dict(bounds.ranges)
    for name, (low, high) in ranges.items():
        current = combined.get(name, (low, high))
        combined[name] = max(current[0], low), min(current[1], high)
    # ranges that all architectures satisfy are left out
    restrictive = {name: pair for name, pair in combined.items() if not account.is_always_within(name, *pair)}
    if any(not account.may_contain(name, *pair) for name, pair in restrictive.items()):
        return 0, 0
    if not restrictive:
        least = most = space.satisfying
    elif len(restrictive) == 1 and (exact := _count_in_range(space, *restrictive.popitem())) is not None:
        least = most = exact
    else:
        account.clear_range_caches()  # a moving slider asks for dozens of ranges, which must not fill the cache
        least, most = account.count_within(restrictive)
    return least if bounds.has_only_ranges else 0, most


def _count_in_range(space: Space, name: str, pair: tuple[int, int]) -> int | None:
    """Return the exact number of architectures with a cost in a range, or None if the distribution is rounded.

    The distribution is the one from which the histogram is made, so that the two agree.
    """
    account = space.bounds.account
    least, greatest = (extreme.bound for extreme in account.extremes(name))
    counts = account.distribution(name, least, greatest, MAX_SHOWN_TOTALS).count(*pair)
    return counts[0] if counts[0] == counts[1] else None


def restricted(space: Space, ranges: Ranges) -> Space:
    """Return the space restricted to architectures whose costs are in `ranges`."""
    return space.where(" and ".join(f"{name} >= {low} and {name} <= {high}" for name, (low, high) in ranges.items()))
