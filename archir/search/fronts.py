"""Lists of scored candidates, such as a Pareto front, as terminal tables or JSON rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archir.diagnostics.escaping import rich_text
from archir.language.elaboration.cost_names import unit as unit_of
from archir.utils.metrics import is_fraction

if TYPE_CHECKING:
    from rich.table import Table

    from archir.search.candidate import Candidate, Scores
    from archir.search.objectives import Objective


def unit(name: str) -> str:
    """Return the unit of a score or cost; "" for counts and for scores of unknown unit."""
    return "%" if is_fraction(name) else unit_of(name)


def heading(name: str) -> str:
    """Return a column heading: the score's name and, if any, its unit."""
    return f"{name}, {unit(name)}" if unit(name) else name


def format_value(name: str, value: float) -> str:
    """Format a value without its unit: integers with thousands separators, fractions as percentages."""
    if is_fraction(name):
        return f"{100 * value:.2f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def rows(front: Sequence[tuple[Candidate, Scores]]) -> list[dict[str, Any]]:
    """Return the candidates as JSON rows with `id`, `hash`, `scores`, and `choices` as in architecture files."""
    return [
        {"id": candidate.id, "hash": candidate.hash, "scores": dict(scores), "choices": dict(candidate.architecture)}
        for candidate, scores in front
    ]


def table(rows: Sequence[Mapping[str, Any]], objectives: Sequence[Objective], title: str = "") -> Table:
    """Return a table of rows: first the objectives, then all other scores by name, then the architecture hash."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    objective_names = [objective.name for objective in objectives]
    others = sorted({name for row in rows for name in row["scores"]} - set(objective_names))
    result = Table(title=rich_text(title) if title else None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    result.add_column("trial", justify="right")
    for name in [*objective_names, *others]:
        result.add_column(rich_text(heading(name)), justify="right")
    result.add_column("architecture")
    for row in rows:
        scores = row["scores"]
        cells = [format_value(name, scores[name]) if name in scores else "" for name in [*objective_names, *others]]
        result.add_row(str(row["id"]), *map(rich_text, cells), rich_text(row["hash"]))
    return result
