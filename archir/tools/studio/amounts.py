"""What spaces cost, for bars and sliders: shares between the least and the greatest, counts within bounds, heat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archir.costs.account import SHOWN
from archir.costs.means import means
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import TOO_MUCH, anew
from archir.pictures.shading import Heat
from archir.spaces.space import Space

BARS = 32
Ranges = Mapping[str, tuple[int, int]]


def heat_of(space: Space, name: str) -> Heat:
    """How much of a cost each node has, on average over the architectures."""
    with anew():
        return Heat(name, means(space.account, name), bool(space.graph.decisions))


def costs_of(space: Space, name: str) -> dict[str, Any]:
    """The least and the greatest of a cost, and how many architectures lie in each of some equal parts between: shares
    of the largest one. Where choices are too entangled for bars, there are none, and `why` says so."""
    with anew():
        least, greatest = (one.bound for one in space.account.extremes(name))
    found: dict[str, Any] = {"least": str(least), "greatest": str(greatest), "bars": [], "why": None}
    try:
        with anew():
            spread = space.account.distribution(name, least, greatest, SHOWN)
            edges = [least + (greatest - least) * i // BARS for i in range(BARS + 1)]
            counts = [spread.count(edges[i] + (i > 0), edges[i + 1])[1] for i in range(BARS)]
            middle = spread.quantiles([0.5])[0]
    except ArchError as error:
        if error.diagnostics[0].code not in ("A1601", "A1602", TOO_MUCH):
            raise
        return found | {"why": error.diagnostics[0].message}
    most = max(counts)
    return found | {
        "bars": [count / most for count in counts], "edges": list(map(str, edges)), "median": str(middle),
    }  # fmt: skip


def within(space: Space, ranges: Ranges) -> tuple[int, int]:
    """At least and at most how many architectures keep the space's bounds and cost within these ranges; the same, and
    exact, unless totals are too many to be told apart."""
    bounds, account = space.bounds, space.bounds.account
    both = dict(bounds.ranges)
    for name, (low, high) in ranges.items():
        before = both.get(name, (low, high))
        both[name] = max(before[0], low), min(before[1], high)
    # what allows all that there is need not be looked at
    asked = {name: pair for name, pair in both.items() if not account.every(name, *pair)}
    if any(not account.some(name, *pair) for name, pair in asked.items()):
        return 0, 0
    if not asked:
        least = most = space.satisfying
    elif len(asked) == 1 and (found := _alone(space, *asked.popitem())) is not None:
        least = most = found
    else:
        account.forget()  # ranges come by the dozen while a slider moves
        least, most = account.count_within(asked)
    return least if bounds.plain else 0, most


def _alone(space: Space, name: str, pair: tuple[int, int]) -> int | None:
    """How many architectures have a cost within a range, by the totals that bars are made of; None if these are
    rounded."""
    account = space.bounds.account
    least, greatest = (one.bound for one in account.extremes(name))
    found = account.distribution(name, least, greatest, SHOWN).count(*pair)
    return found[0] if found[0] == found[1] else None


def narrowed(space: Space, ranges: Ranges) -> Space:
    """The architectures that cost within ranges, too."""
    return space.where(" and ".join(f"{name} >= {low} and {name} <= {high}" for name, (low, high) in ranges.items()))
