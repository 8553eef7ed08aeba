"""Statistical tests of differences between strategies, and between trainings.

Ranks, the signed-rank test, Holm's correction and the probability of superiority: Demsar 2006, Statistical
comparisons of classifiers over multiple data sets; Wilcoxon 1945; Holm 1979. P-values of the signed-rank test are
exact, even with ties, for up to MAX_EXACT differences, by counting all assignments of signs; for more, the normal
approximation is used.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import erfc, inf, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from archir.utils.ranks import ranks
from archir.utils.student import t_probability, t_quantile

Floats = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)
MAX_EXACT = 50
"""Maximum number of differences for which p-values are computed exactly."""


def signed_rank_test(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of the Wilcoxon signed-rank test.

    Differences that are zero or NaN are dropped; the p-value is 1 if none are left.
    """
    nonzero = np.array(
        [difference for difference in differences if difference != 0 and difference == difference], np.float64
    )
    n = len(nonzero)
    if n == 0:
        return 1.0
    magnitude_ranks = ranks(np.abs(nonzero))
    positive = float(magnitude_ranks[nonzero > 0].sum())
    total = n * (n + 1) / 2
    if n <= MAX_EXACT:
        doubled = np.rint(2 * magnitude_ranks).astype(np.int64)
        sign_counts = np.zeros(int(doubled.sum()) + 1)
        sign_counts[0] = 1.0
        for size in doubled.tolist():
            sign_counts[size:] = sign_counts[size:] + sign_counts[:-size]
        least = round(2 * min(positive, total - positive))
        return min(1.0, 2 * float(sign_counts[: least + 1].sum()) / 2.0**n)
    _, counts = np.unique(magnitude_ranks, return_counts=True)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((counts**3 - counts).sum()) / 48
    return erfc(abs(positive - total / 2) / sqrt(2 * variance)) if variance > 0 else 1.0


def paired_t_test(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the 95% interval of the mean of at least two differences, and the two-sided p-value."""
    values = np.array(differences, np.float64)
    freedom, mean = len(values) - 1, float(values.mean())
    error = float(values.std(ddof=1)) / sqrt(len(values))
    margin = t_quantile(0.95, freedom) * error
    t = abs(mean) / error if error else inf if mean else 0.0
    return mean - margin, mean + margin, 1 - t_probability(t, freedom)


def holm_correction(values: Mapping[Key, float]) -> dict[Key, float]:
    """Return p-values by pair of strategies or other keys after Holm's correction for multiple comparisons."""
    ordered = sorted(values.items(), key=lambda item: item[1])
    corrected: dict[Key, float] = {}
    running_max = 0.0
    for number, (key, value) in enumerate(ordered):
        running_max = max(running_max, min(1.0, (len(ordered) - number) * value))
        corrected[key] = running_max
    return corrected


def probability_less(first: Floats, second: Floats) -> float:
    """Return the probability that a random value of `first` is less than one of `second`; ties count one half.

    (Vargha and Delaney 2000.)
    """
    sorted_second = np.sort(second)
    greater = len(second) - np.searchsorted(sorted_second, first, side="right")
    equal = np.searchsorted(sorted_second, first, side="right") - np.searchsorted(sorted_second, first, side="left")
    return float((greater + equal / 2).sum() / (len(first) * len(second)))


def undecided_groups(
    means: Sequence[float], p_values: Mapping[tuple[int, int], float], level: float
) -> list[list[int]]:
    """Return the maximal groups of strategies in which no two differ significantly.

    Each group is consecutive in the order of mean ranks. Groups of a single strategy are omitted.
    """
    order = sorted(range(len(means)), key=lambda i: means[i])

    def same(members: Sequence[int]) -> bool:
        return all(p_values[min(a, b), max(a, b)] > level for a in members for b in members if a < b)

    groups_found: list[list[int]] = []
    for begin in range(len(order)):
        end = max(end for end in range(begin + 1, len(order) + 1) if same(order[begin:end]))
        group = order[begin:end]
        if len(group) > 1 and not any(set(group) <= set(other) for other in groups_found):
            groups_found.append(group)
    return groups_found
