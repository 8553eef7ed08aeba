"""A Pareto front, or any candidates with their scores: as a table, and as rows for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archir.diagnostics.visible import plain
from archir.language.elaboration.costs import unit as unit_of
from archir.search.candidate import Candidate, Scores
from archir.search.fronts.figures import is_part
from archir.search.objectives import Objective

if TYPE_CHECKING:
    from rich.table import Table

Front = Sequence[tuple[Candidate, Scores]]


def unit(name: str) -> str:
    """The unit of a score or cost; empty for counts, and for scores of which it is not known."""
    return "%" if is_part(name) else unit_of(name)


def heading(name: str) -> str:
    """A name with its unit."""
    return f"{name}, {unit(name)}" if unit(name) else name


def shown(name: str, value: float) -> str:
    """A value as text, without its unit: whole numbers with separators, parts of a whole in percent."""
    if is_part(name):
        return f"{100 * value:.2f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def rows(front: Front) -> list[dict[str, Any]]:
    """The candidates for JSON: `id`, `hash`, `scores`, and `choices` as an architecture's file has them."""
    return [
        {"id": one.id, "hash": one.hash, "scores": dict(scores), "choices": dict(one.architecture)}
        for one, scores in front
    ]


def table(found: Sequence[Mapping[str, Any]], objectives: Sequence[Objective], title: str = "") -> Table:
    """A line for each of `rows`: its objectives, then its other scores."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    aims = [one.name for one in objectives]
    others = sorted({name for row in found for name in row["scores"]} - set(aims))
    made = Table(title=plain(title) if title else None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("trial", justify="right")
    for name in [*aims, *others]:
        made.add_column(plain(heading(name)), justify="right")
    made.add_column("architecture")
    for row in found:
        scores = row["scores"]
        cells = [shown(name, scores[name]) if name in scores else "" for name in [*aims, *others]]
        made.add_row(str(row["id"]), *map(plain, cells), plain(row["hash"]))
    return made
