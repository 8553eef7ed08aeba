"""Formats of metrics: fractions in percent, everything else as a number."""

from __future__ import annotations

from collections.abc import Mapping

PERCENT = ("accuracy", "miou", "f1", "exact", "average_precision")
"""Suffixes of the names of metrics that are fractions."""
_NO_MEASURES = {"epoch", "seconds", "finished", "trials", "failed", "entropy", "eigenvalue", "predictor_rank"}
"""Names of columns that are not metrics of a network."""
_PREFIXES = ("validation_", "smallest_", "expected_", "predicted_")
"""Prefixes of names that are not metrics of held-out samples."""


def is_fraction(name: str) -> bool:
    """Return whether a metric is a fraction, shown in percent."""
    return name.endswith(PERCENT)


def format_metric(name: str, value: float, digits: int = 2) -> str:
    """Return a metric as text with its unit: `97.21%`, `0.1234`."""
    return f"{100 * value:.{digits}f}%" if is_fraction(name) else f"{value:.4g}"


def select_measures(row: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """Return the metrics in a row of figures, without losses, counts and times.

    With a `prefix`, such as `validation_`, only the metrics with that prefix, which is removed from their names.
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
