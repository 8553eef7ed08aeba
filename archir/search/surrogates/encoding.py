"""Architectures as vectors: what models of scores are fitted to.

Squared distances mean something: each choice adds at most 1. Two alternatives without an order are 1 apart, the first
and the last of those that are numbers, too, and what lies between in proportion; of choices that take several, the
part that differs. A choice that is not active is half as far from each alternative as they are from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagrams.cases import Choice

Floats = NDArray[np.floating[Any]]
"""Of 64 bits, or of 32 where models need no more."""


MOST_CELLS = 4_096
"""Of a table of the vectors of a choice."""


class Encoding:
    """The vectors of a space's architectures."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._choices = list(choices)

    def __call__(self, codes: Sequence[Sequence[int]]) -> Floats:
        """Rows of outcomes, -1 for inactive choices [n, choices], as vectors [n, k]."""
        rows = np.array(codes, np.int64).reshape(len(codes), len(self._choices))
        parts: list[Floats] = [np.zeros((len(rows), 0))]
        for choice, table, column in zip(self._choices, self._tables, rows.T, strict=True):
            if table is not None:
                parts.append(table[column])
                continue
            used, places = np.unique(column, return_inverse=True)
            vectors = np.stack([_vector(choice, int(outcome)) for outcome in used]) if len(used) else np.zeros((0, 0))
            parts.append(vectors[places])
        return np.concatenate(parts, 1)

    @cached_property
    def _tables(self) -> list[Floats | None]:
        """The vectors of each choice by outcome, the last of which is that of -1; None for those of many outcomes."""
        return [
            np.stack([_vector(choice, outcome) for outcome in (*range(choice.outcomes), -1)])
            if choice.outcomes * len(choice.alternatives) <= MOST_CELLS
            else None
            for choice in self._choices
        ]


def _vector(choice: Choice, outcome: int) -> Floats:
    many = len(choice.alternatives)
    found = np.zeros(many)
    if outcome < 0:
        return found
    if choice.take is not None:
        found[list(choice.subsets[outcome])] = np.sqrt(0.5 / max(1, choice.take))
    elif many > 1 and ordered(choice):
        found[0] = np.sqrt(0.5)  # it is active
        found[1 : outcome + 1] = np.sqrt(1 / (many - 1))
    else:
        found[outcome] = np.sqrt(0.5)
    return found


def ordered(choice: Choice) -> bool:
    """Whether one of several numbers is chosen, which ascend."""
    numbers = [one for one in choice.alternatives if isinstance(one, int | float) and not isinstance(one, bool)]
    return choice.take is None and len(numbers) == choice.outcomes and all(a < b for a, b in pairwise(numbers))


def normal(values: Sequence[float]) -> Floats:
    """The quantiles of a normal distribution at the ranks of values: outliers weigh no more than others [n]."""
    from statistics import NormalDist

    _, places, counts = np.unique(np.array(values, float), return_inverse=True, return_counts=True)
    middles = (np.cumsum(counts) - counts / 2) / max(1, len(values))
    quantile = NormalDist().inv_cdf
    return np.array([quantile(float(one)) for one in middles])[places.ravel()]
