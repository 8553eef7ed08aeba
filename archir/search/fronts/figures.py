"""How figures are shown: parts of a whole in percent, everything else as a number."""

from __future__ import annotations

from collections.abc import Mapping

PERCENT = ("accuracy", "miou", "f1", "exact", "average_precision")
"""What names of figures that are parts of a whole end with."""
_BESIDE = {"epoch", "seconds", "finished", "trials", "failed", "entropy", "eigenvalue", "predictor_rank"}
_PREFIXES = ("validation_", "smallest_", "expected_", "predicted_")


def is_part(name: str) -> bool:
    """Whether a figure is a part of a whole."""
    return name.endswith(PERCENT)


def shown(name: str, value: float, digits: int = 2) -> str:
    """A figure with its unit: `97.21%`, `0.1234`."""
    return f"{100 * value:.{digits}f}%" if is_part(name) else f"{value:.4g}"


def measures(row: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """The measures of a row of figures, without losses: of held-out samples, or of others by the prefix of their
    names."""
    named = {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
    return {
        name: float(value)
        for name, value in named.items()
        if isinstance(value, int | float)
        and name not in _BESIDE
        and not name.endswith("loss")
        and not name.startswith(_PREFIXES)
    }
