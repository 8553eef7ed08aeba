"""What `archir cost` says of a whole space: extremes, distributions, and the costs of many architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from archir.cli.output import big, emit, say, table
from archir.costs.account import SHOWN
from archir.costs.extremes.witnesses import Extreme
from archir.costs.scopes import Range, by_scope, whole
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import TOO_MUCH, anew

if TYPE_CHECKING:
    from archir.spaces.space import Space

FRACTIONS = {"least": 0.0, "1%": 0.01, "10%": 0.1, "25%": 0.25, "median": 0.5, "75%": 0.75, "90%": 0.9, "99%": 0.99}
BARS = 20
T = TypeVar("T")


def extremes(space: Space, as_json: bool) -> None:
    """The least and the greatest of each cost over all architectures; between which numbers they are, where it is not
    known exactly."""
    size, satisfying = _counted(lambda: space.size), _counted(lambda: space.satisfying)
    kept = _counted(space.count) if space.bounded else None
    with anew(3):  # what nodes cost: all that follows reads it
        space.account.terms("params")
    found = {name: _extremes(space, name) for name in space.account.summed}
    found |= {name: _limits(space, name) for name in space.account.peaks}
    if as_json:
        values = {name: [one.value for one in pair] for name, pair in found.items()}
        bounds = {name: [one.bound for one in pair] for name, pair in found.items()}
        exact = {name: all(one.exact for one in pair) for name, pair in found.items()}
        ends = {"extremes": values, "bounds": bounds, "exact": exact}
        counts = {"size": size, "satisfying": satisfying, "within_bounds": None if kept is None else list(kept)}
        emit({"net": space.name} | counts | ends)
        return
    rows = [(name, _told(least, "at least"), _told(greatest, "at most")) for name, (least, greatest) in found.items()]
    least, most = (satisfying, satisfying) if not space.bounded else kept or (None, None)
    many = "some" if least is None or most is None else big(least) if least == most else f"{big(least)} to {big(most)}"
    among = "" if size is None or size == least else f" of {big(size)}"
    counted = f"{many}{among} architecture{'' if size == 1 else 's'}"
    table(f"{space.name}: {counted}", ["cost", "least", "greatest"], rows, right=(1, 2))
    every = [one for pair in found.values() for one in pair]
    if any(one.codes is not None and not one.exact for one in every):
        say("between: no architecture is beyond the one number, one that was found has the other")
    if any(one.codes is None for one in every):
        say("at least, at most: no architecture is beyond the number; none was found that shows how near one comes")


def _extremes(space: Space, name: str) -> tuple[Extreme, Extreme]:
    with anew():
        least = space.account.end(name, 1)
    with anew():
        return least, space.account.end(name, -1)


def _limits(space: Space, name: str) -> tuple[Extreme, Extreme]:
    """What bounds a cost that is a maximum."""
    with anew():
        least, greatest = space.account.limits(name)
    codes = () if least == greatest else None  # any architecture has it
    return Extreme(least, codes), Extreme(greatest, codes)


def _counted(count: Callable[[], T]) -> T | None:
    """A number of architectures, or numbers; None if counting them takes too much work."""
    try:
        with anew():
            return count()
    except ArchError as error:
        if error.diagnostics[0].code != TOO_MUCH:
            raise
    return None


def _told(one: Extreme, word: str) -> str:
    if one.exact:
        return f"{one.value:,}"
    if one.codes is None:
        return f"{word} {one.bound:,}"
    low, high = (one.bound, one.value) if word == "at least" else (one.value, one.bound)
    return f"between {low:,} and {high:,}"


def scopes(space: Space, depth: int, as_json: bool) -> None:
    """The least, the mean and the greatest of each cost over all architectures, of each part of the net."""
    parts, total = by_scope(space.account, depth), whole(space.account)
    if as_json:
        found = {name: {scope: _plain(part[name]) for scope, part in parts.items()} for name in total}
        totals = {name: _plain(whole) for name, whole in total.items()}
        emit({"net": space.name, "size": space.size, "scopes": found, "total": totals})
        return
    for name in total:
        rows = [(scope, part[name]) for scope, part in parts.items() if part[name].greatest]
        cells = [(scope, *_cells(part), _share(part, total[name])) for scope, part in [*rows, ("total", total[name])]]
        heads = [name, "least", "mean", "greatest", "of the mean"]
        table("", heads, cells, right=(1, 2, 3, 4))


def _plain(part: Range) -> dict[str, float]:
    return {"least": part.least, "mean": float(part.mean), "greatest": part.greatest}


def _cells(part: Range) -> tuple[str, str, str]:
    return f"{part.least:,}", f"{float(part.mean):,.1f}", f"{part.greatest:,}"


def _share(part: Range, total: Range) -> str:
    return f"{float(part.mean / total.mean):.1%}" if total.mean else ""


def alternatives(space: Space, name: str, as_json: bool) -> None:
    """The least and the greatest cost with each alternative of each choice."""
    found = [
        (choice.path, str(choice.label(outcome)) if outcome >= 0 else "(inactive)", *pair)
        for choice, level in zip(space.choices, space.account.marginals(name), strict=True)
        for outcome, pair in level.items()
    ]
    if as_json:
        keys = ("choice", "alternative", "least", "greatest")
        emit({"net": space.name, "cost": name, "alternatives": [dict(zip(keys, row, strict=True)) for row in found]})
        return
    rows = [(path, label, f"{least:,}", f"{greatest:,}") for path, label, least, greatest in found]
    table("", ["choice", "alternative", f"least {name}", f"greatest {name}"], rows, right=(2, 3))


def distribution(space: Space, name: str, as_json: bool) -> None:
    """Quantiles and a histogram of a cost over all architectures."""
    low, high = (one.bound for one in space.account.extremes(name))
    spread = space.account.distribution(name, low, high, SHOWN)
    least, greatest = (low if one is None else one for one in (spread.first(low), spread.last(high)))
    values = [least, *spread.quantiles(list(FRACTIONS.values())[1:]), greatest]
    quantiles = dict(zip([*FRACTIONS, "greatest"], values, strict=True))
    edges = [least + (greatest - least) * i // BARS for i in range(BARS + 1)]
    counts = [spread.count(edges[i] + (i > 0), edges[i + 1])[1] for i in range(BARS)]
    if as_json:
        emit({"net": space.name, "cost": name, "quantiles": quantiles, "edges": edges, "counts": counts})
        return
    table(
        "", [name, "of all architectures, this many at most"], [(f"{v:,}", k) for k, v in quantiles.items()], right=(0,)
    )
    largest = max(counts)
    rows = [
        (f"{edges[i + 1]:,}", "█" * round(40 * count / largest) or ("▏" if count else ""), f"{count / sum(counts):.2%}")
        for i, count in enumerate(counts)
    ]
    table("", [f"{name} up to", "architectures", ""], rows, right=(0, 2))


def samples(space: Space, count: int, seed: int, as_json: bool) -> None:
    """The costs of architectures that are drawn."""
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
