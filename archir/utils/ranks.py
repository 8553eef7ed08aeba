"""Ranks of values, and the rank correlations of Spearman and Kendall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ranks(values: Sequence[float] | Floats) -> Floats:
    """Return the rank of each value [n], with 1 for the smallest; equal values get their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse.ravel()], np.float64)


def spearman(x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> float | None:
    """Return Spearman's rank correlation; None if there are fewer than two values, or if all x or all y are equal."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def kendall(x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> float | None:
    """Return Kendall's tau-b; None if there are fewer than two values, or if all x or all y are equal."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    first, second = (np.sign(np.subtract.outer(np.asarray(each), np.asarray(each))) for each in (x, y))
    return float((first * second).sum() / np.sqrt((first**2).sum() * (second**2).sum()))
