"""Tests of differences between strategies: ranks, signed ranks, and what is better how often.

Demsar 2006, Statistical comparisons of classifiers over multiple data sets; Wilcoxon 1945; Holm 1979. Few differences
are compared with all that signs could have been, exactly, ties too; many with a normal distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
EXACT = 50
"""Differences, up to which all signs are counted."""


def ranks(values: Floats) -> Floats:
    """Ranks from 1, the least first, the mean of those that are equal [n] -> [n]."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places.ravel()], np.float64)


def signed_ranks(differences: Sequence[float]) -> float:
    """The two-sided p-value of the Wilcoxon signed-rank test; differences of 0 are left out, 1 if no others are."""
    given = np.array([one for one in differences if one != 0 and one == one], np.float64)
    n = len(given)
    if n == 0:
        return 1.0
    sizes = ranks(np.abs(given))
    positive = float(sizes[given > 0].sum())
    total = n * (n + 1) / 2
    if n <= EXACT:
        doubled = np.rint(2 * sizes).astype(np.int64)
        ways = np.zeros(int(doubled.sum()) + 1)
        ways[0] = 1.0
        for size in doubled.tolist():
            ways[size:] = ways[size:] + ways[:-size] if size else 2 * ways
        least = round(2 * min(positive, total - positive))
        return min(1.0, 2 * float(ways[: least + 1].sum()) / 2.0**n)
    _, counts = np.unique(sizes, return_counts=True)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((counts**3 - counts).sum()) / 48
    return erfc(abs(positive - total / 2) / sqrt(2 * variance)) if variance > 0 else 1.0


def holm(values: Mapping[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """P-values, corrected for how many there are."""
    ordered = sorted(values.items(), key=lambda one: one[1])
    found: dict[tuple[int, int], float] = {}
    largest = 0.0
    for number, (key, value) in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - number) * value))
        found[key] = largest
    return found


def better(one: Floats, other: Floats) -> float:
    """How likely a draw of the first is less than a draw of the second; equal ones are half (Vargha, Delaney 2000)."""
    ordered = np.sort(other)
    above = len(other) - np.searchsorted(ordered, one, side="right")
    equal = np.searchsorted(ordered, one, side="right") - np.searchsorted(ordered, one, side="left")
    return float((above + equal / 2).sum() / (len(one) * len(other)))


def groups(means: Sequence[float], corrected: Mapping[tuple[int, int], float], level: float) -> list[list[int]]:
    """Neighbours in the order of mean ranks of which no two differ at a level; those alone in no other group."""
    order = sorted(range(len(means)), key=lambda i: means[i])

    def same(some: Sequence[int]) -> bool:
        return all(corrected[min(a, b), max(a, b)] > level for a in some for b in some if a < b)

    found: list[list[int]] = []
    for begin in range(len(order)):
        end = max(end for end in range(begin + 1, len(order) + 1) if same(order[begin:end]))
        group = order[begin:end]
        if len(group) > 1 and not any(set(group) <= set(other) for other in found):
            found.append(group)
    return found
