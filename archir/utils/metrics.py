"""Names of metrics: which of them are fractions of 1, which columns of a table are metrics, and their formats."""

from __future__ import annotations

from collections.abc import Mapping

_FRACTIONS = ("accuracy", "miou", "f1", "exact", "average_precision", "recall")
"""Suffixes of the names of metrics that are fractions of 1."""
_NO_MEASURES = {"epoch", "seconds", "finished", "trials", "failed", "entropy", "eigenvalue", "predictor_rank"}
"""Names of table columns that are not metrics of a network."""
_PREFIXES = ("validation_", "smallest_", "expected_", "predicted_")
"""Name prefixes of columns that are not metrics on held-out samples."""


def is_fraction(name: str) -> bool:
    """Return True if a metric is a fraction of 1, to be shown as a percentage."""
    return name.partition("_at_")[0].endswith(_FRACTIONS)


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
