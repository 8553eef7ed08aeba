"""Formats of metrics, and lists of scored candidates, such as a Pareto front, as terminal tables or JSON rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archir.diagnostics.escaping import rich_text
from archir.language.elaboration.cost_names import unit as unit_of

if TYPE_CHECKING:  # most commands format metrics only
    from rich.table import Table

    from archir.search.candidate import Candidate, Scores
    from archir.search.objectives import Objective

PERCENT = ("accuracy", "miou", "f1", "exact", "average_precision", "recall")
"""Suffixes of the names of metrics that are fractions of 1."""
_NO_MEASURES = {"epoch", "seconds", "finished", "trials", "failed", "entropy", "eigenvalue", "predictor_rank"}
"""Names of table columns that are not metrics of a network."""
_PREFIXES = ("validation_", "smallest_", "expected_", "predicted_")
"""Name prefixes of columns that are not metrics on held-out samples."""


def is_fraction(name: str) -> bool:
    """Return True if a metric is a fraction of 1, to be shown as a percentage."""
    return name.partition("_at_")[0].endswith(PERCENT)


def format_metric(name: str, value: float, digits: int = 2) -> str:
    """Format a metric with its unit: `97.21%`, `0.1234`."""
    return f"{100 * value:.{digits}f}%" if is_fraction(name) else f"{value:.4g}"


def select_measures(row: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """Return the metrics in a row of numbers, without losses, counts and times.

    With a `prefix` such as `validation_`, only the metrics whose names start with it; the prefix is removed.
    """
    named = {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
    return {
        name: float(value)
        for name, value in named.items()
        if isinstance(value, int | float)
        and name not in _NO_MEASURES
        and not name.endswith("loss")
        and not name.startswith(_PREFIXES)
    }


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
