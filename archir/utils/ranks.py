"""Ranks of values, and the rank correlations of Spearman and Kendall."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from math import sqrt

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
    """Return Kendall's tau-b of finite values; None if there are fewer than two, or if all x or all y are equal."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    x_ranks, y_ranks = (np.unique(each, return_inverse=True)[1].ravel() for each in (x, y))
    n = len(x_ranks)
    pairs = n * (n - 1) // 2
    untied_x, untied_y = pairs - _tied_pairs(x_ranks), pairs - _tied_pairs(y_ranks)
    discordant = 0
    sorted_before: list[int] = []
    for before, rank in enumerate(y_ranks[np.lexsort((y_ranks, x_ranks))].tolist()):
        discordant += before - bisect_right(sorted_before, rank)
        insort(sorted_before, rank)
    untied_in_both = untied_x + untied_y - pairs + _tied_pairs(x_ranks * n + y_ranks)
    return (untied_in_both - 2 * discordant) / sqrt(untied_x * untied_y)


def _tied_pairs(values: NDArray[np.int64]) -> int:
    """Return the number of pairs of equal values."""
    _, counts = np.unique(values, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())
