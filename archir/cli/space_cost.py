"""Output of `archir cost` for a whole space: extremes, distributions, and the costs of sampled architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from archir.cli.output import emit, say, table
from archir.costs.account import MAX_SHOWN_TOTALS
from archir.costs.extremes.witnesses import Extreme
from archir.costs.scopes import CostRange, costs_by_scope, total_costs
from archir.diagnostics.errors import LimitError
from archir.diagnostics.work import fresh_budget
from archir.utils.counts import format_count, inflect

if TYPE_CHECKING:
    from archir.spaces.space import Space

FRACTIONS = {"least": 0.0, "1%": 0.01, "10%": 0.1, "25%": 0.25, "median": 0.5, "75%": 0.75, "90%": 0.9, "99%": 0.99}
"""Fractions at which quantiles of a cost's distribution are printed, by printed name."""
BARS = 20
"""Number of bars in a printed histogram."""
T = TypeVar("T")


def extremes(space: Space, as_json: bool) -> None:
    """Print the minimum and maximum of each cost over all architectures.

    An extreme that is not known exactly is printed as an interval.
    """
    size, satisfying = _count_within_budget(lambda: space.size), _count_within_budget(lambda: space.satisfying)
    kept = _count_within_budget(space.count) if space.has_cost_bounds else None
    with fresh_budget(3):  # the costs of nodes, which everything below reads
        space.account.terms("params")
    pairs = {name: _extremes(space, name) for name in space.account.summed}
    pairs |= {name: _peak_extremes(space, name) for name in space.account.peaks}
    if as_json:
        values = {name: [extreme.value for extreme in pair] for name, pair in pairs.items()}
        bounds = {name: [extreme.bound for extreme in pair] for name, pair in pairs.items()}
        exact = {name: all(extreme.exact for extreme in pair) for name, pair in pairs.items()}
        columns = {"extremes": values, "bounds": bounds, "exact": exact}
        counts = {"size": size, "satisfying": satisfying, "within_bounds": None if kept is None else list(kept)}
        emit({"net": space.name} | counts | columns)
        return
    rows = [
        (name, _format_extreme(minimum, "at least"), _format_extreme(greatest, "at most"))
        for name, (minimum, greatest) in pairs.items()
    ]
    minimum, maximum = (satisfying, satisfying) if not space.has_cost_bounds else kept or (None, None)
    count_text = (
        "some"
        if minimum is None or maximum is None
        else format_count(minimum)
        if minimum == maximum
        else f"{format_count(minimum)} to {format_count(maximum)}"
    )
    among = "" if size is None or size == minimum else f" of {format_count(size)}"
    counted = f"{count_text}{among} {inflect('architecture', size)}"
    table(f"{space.name}: {counted}", ["cost", "least", "greatest"], rows, right=(1, 2))
    every = [extreme for pair in pairs.values() for extreme in pair]
    if any(extreme.codes is not None and not extreme.exact for extreme in every):
        say(
            "between A and B: one of the two is a proven bound, the other is the cost of an architecture that was found"
        )
    if any(extreme.codes is None for extreme in every):
        say("at least, at most: a proven bound; how close an architecture comes to it is unknown")


def _extremes(space: Space, name: str) -> tuple[Extreme, Extreme]:
    """Return the minimum and the maximum of an additive cost over all architectures."""
    with fresh_budget():
        least = space.account.extreme(name, 1)
    with fresh_budget():
        return least, space.account.extreme(name, -1)


def _peak_extremes(space: Space, name: str) -> tuple[Extreme, Extreme]:
    """Return bounds on the minimum and maximum of a peak cost, such as peak memory: a maximum over nodes."""
    with fresh_budget():
        least, greatest = space.account.limits(name)
    codes = () if least == greatest else None  # any architecture has it
    return Extreme(least, codes), Extreme(greatest, codes)


def _count_within_budget(count: Callable[[], T]) -> T | None:
    """Return the result of a counting function, or None if it exceeds the work limit."""
    try:
        with fresh_budget():
            return count()
    except LimitError:
        return None


def _format_extreme(extreme: Extreme, side: str) -> str:
    """Format a minimum or maximum: the exact value, a one-sided bound, or an interval."""
    if extreme.exact:
        return f"{extreme.value:,}"
    if extreme.codes is None:
        return f"{side} {extreme.bound:,}"
    low, high = (extreme.bound, extreme.value) if side == "at least" else (extreme.value, extreme.bound)
    return f"between {low:,} and {high:,}"


def scopes(space: Space, depth: int, as_json: bool) -> None:
    """Print the minimum, mean and maximum of each cost over all architectures, for each part of the net."""
    parts, total = costs_by_scope(space.account, depth), total_costs(space.account)
    if as_json:
        parts_json = {name: {scope: _plain(part[name]) for scope, part in parts.items()} for name in total}
        totals = {name: _plain(part_range) for name, part_range in total.items()}
        emit({"net": space.name, "size": space.size, "scopes": parts_json, "total": totals})
        return
    for name in total:
        rows = [(scope, part[name]) for scope, part in parts.items() if part[name].greatest]
        cells = [(scope, *_cells(part), _share(part, total[name])) for scope, part in [*rows, ("total", total[name])]]
        heads = [name, "least", "mean", "greatest", "of the mean"]
        table("", heads, cells, right=(1, 2, 3, 4))


def _plain(part: CostRange) -> dict[str, float]:
    return {"least": part.least, "mean": float(part.mean), "greatest": part.greatest}


def _cells(part: CostRange) -> tuple[str, str, str]:
    return f"{part.least:,}", f"{float(part.mean):,.1f}", f"{part.greatest:,}"


def _share(part: CostRange, total: CostRange) -> str:
    return f"{float(part.mean / total.mean):.1%}" if total.mean else ""


def alternatives(space: Space, name: str, as_json: bool) -> None:
    """Print the minimum and the maximum of a cost over the architectures with each alternative, for each choice."""
    marginals = [
        (choice.path, str(choice.label(outcome)) if outcome >= 0 else "(inactive)", *pair)
        for choice, level in zip(space.choices, space.account.marginals(name), strict=True)
        for outcome, pair in level.items()
    ]
    if as_json:
        keys = ("choice", "alternative", "least", "greatest")
        emit(
            {"net": space.name, "cost": name, "alternatives": [dict(zip(keys, row, strict=True)) for row in marginals]}
        )
        return
    rows = [(path, label, f"{least:,}", f"{greatest:,}") for path, label, least, greatest in marginals]
    table("", ["choice", "alternative", f"least {name}", f"greatest {name}"], rows, right=(2, 3))


def distribution(space: Space, name: str, as_json: bool) -> None:
    """Print quantiles and a histogram of a cost over all architectures."""
    low, high = (bound.bound for bound in space.account.extremes(name))
    costs = space.account.distribution(name, low, high, MAX_SHOWN_TOTALS)
    least, greatest = (low if bound is None else bound for bound in (costs.first_total(low), costs.last_total(high)))
    values = [least, *costs.quantiles(list(FRACTIONS.values())[1:]), greatest]
    quantiles = dict(zip([*FRACTIONS, "greatest"], values, strict=True))
    edges = [least + (greatest - least) * i // BARS for i in range(BARS + 1)]
    counts = [costs.count(edges[i] + (i > 0), edges[i + 1])[1] for i in range(BARS)]
    if as_json:
        emit({"net": space.name, "cost": name, "quantiles": quantiles, "edges": edges, "counts": counts})
        return
    table("", [name, "quantile over all architectures"], [(f"{v:,}", k) for k, v in quantiles.items()], right=(0,))
    largest = max(counts)
    rows = [
        (f"{edges[i + 1]:,}", "█" * round(40 * count / largest) or ("▏" if count else ""), f"{count / sum(counts):.2%}")
        for i, count in enumerate(counts)
    ]
    table("", [f"{name} up to", "architectures", ""], rows, right=(0, 2))


def samples(space: Space, count: int, seed: int, as_json: bool) -> None:
    """Print the costs of sampled architectures."""
    names = (*space.account.summed, *space.account.peaks)
    costs = space.cost(space.sample_codes(count, np.random.default_rng(seed)), names)
    if as_json:
        emit({"net": space.name, "costs": {name: column.tolist() for name, column in costs.items()}})
        return
    rows: list[tuple[Any, ...]] = [
        (name, *(f"{value:,}" for value in np.quantile(column, [0, 0.25, 0.5, 0.75, 1], method="nearest").tolist()))
        for name, column in costs.items()
    ]
    heads = ["cost", "least", "25%", "median", "75%", "greatest"]
    table(f"{count:,} architectures of {space.name}", heads, rows, right=(1, 2, 3, 4, 5))
