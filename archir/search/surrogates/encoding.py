"""Encodes architectures as vectors for surrogate models.

A choice adds at most 1 to the squared distance between the vectors of two architectures: for different
unordered alternatives, 1; for ascending numbers, the difference of their ranks, scaled so that first and last
differ by 1; for k-subsets, the fraction of alternatives that differ. A choice that is active in only one of
the two architectures adds 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagrams.diagram import Choice

Floats = NDArray[np.floating[Any]]
"""Array of floats, with 64 bits, or 32 bits for models that need no more."""


MAX_TABLE_CELLS = 4_096
"""Maximum size (outcomes times alternatives) of a choice's precomputed vector table."""


class Encoding:
    """Maps codes of architectures of one space to vectors."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._choices = list(choices)

    def __call__(self, codes: Sequence[Sequence[int]]) -> Floats:
        """Encode rows of outcomes [n, choices], -1 for inactive choices, as vectors [n, k]."""
        rows = np.array(codes, np.int64).reshape(len(codes), len(self._choices))
        parts: list[Floats] = [np.zeros((len(rows), 0))]
        for choice, table, column in zip(self._choices, self._tables, rows.T, strict=True):
            if table is not None:
                parts.append(table[column])
                continue
            used, inverse = np.unique(column, return_inverse=True)
            vectors = np.stack([_vector(choice, int(outcome)) for outcome in used]) if len(used) else np.zeros((0, 0))
            parts.append(vectors[inverse])
        return np.concatenate(parts, 1)

    @cached_property
    def _tables(self) -> list[Floats | None]:
        """For each choice, the vectors of its outcomes [outcomes + 1, k]; the last row is for an inactive choice.

        The entry of a choice is None if its table would be too large.
        """
        return [
            np.stack([_vector(choice, outcome) for outcome in (*range(choice.outcome_count), -1)])
            if choice.outcome_count * len(choice.alternatives) <= MAX_TABLE_CELLS
            else None
            for choice in self._choices
        ]


def _vector(choice: Choice, outcome: int) -> Floats:
    """Return the vector of an outcome [alternatives]; zeros for an inactive choice (-1)."""
    count = len(choice.alternatives)
    vector = np.zeros(count)
    if outcome < 0:
        return vector
    if choice.k is not None:
        vector[list(choice.subsets[outcome])] = np.sqrt(0.5 / max(1, choice.k))
    elif count > 1 and is_ordered(choice):
        vector[0] = 0.5
        vector[1:] = 0.5 / np.sqrt(count - 1)
        vector[1 + outcome :] *= -1
    else:
        vector[outcome] = np.sqrt(0.5)
    return vector


def is_ordered(choice: Choice) -> bool:
    """Return True if a choice selects one of several ascending numbers."""
    numbers = [label for label in choice.alternatives if isinstance(label, int)]
    return choice.k is None and len(numbers) == choice.outcome_count and all(a < b for a, b in pairwise(numbers))


def normal_scores(values: Sequence[float]) -> Floats:
    """Return the normal scores [n] of values: standard normal quantiles at their ranks. Equal values get equal
    scores.

    Models fitted to normal scores are robust to outliers.
    """
    from statistics import NormalDist

    _, inverse, counts = np.unique(np.array(values, float), return_inverse=True, return_counts=True)
    middles = (np.cumsum(counts) - counts / 2) / max(1, len(values))
    quantile = NormalDist().inv_cdf
    return np.array([quantile(float(middle)) for middle in middles])[inverse.ravel()]
