"""Exact sampling in proportion to integer weights of any size."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import gcd

import numpy as np
from numpy.typing import NDArray

FLOAT_BITS = 53
"""Number of random bits in a random float."""


@dataclass(frozen=True)
class Distribution:
    """A distribution over the outcomes of a choice, as cumulative integer weights.

    Weights are divided by their greatest common divisor. Sampling is exact however large the weights are: an outcome of
    probability 10^-17 does occur. If earlier choices leave no architecture that satisfies the constraints, all weights
    are zero.
    """

    cumulative: tuple[int, ...]

    @classmethod
    def of(cls, *weights: int) -> Distribution:
        """Return the distribution with these integer weights, one for each outcome."""
        common = gcd(*weights) or 1
        return cls(tuple(accumulate(weight // common for weight in weights)))

    @cached_property
    def possible(self) -> tuple[int, ...]:
        """The outcomes that have a positive weight."""
        return tuple(i for i, total in enumerate(self.cumulative) if total > (self.cumulative[i - 1] if i else 0))

    def sample(self, rng: random.Random) -> int:
        """Sample an outcome, exactly in proportion to its weight."""
        return self._locate(int(rng.random() * 2**FLOAT_BITS), lambda: rng.getrandbits(FLOAT_BITS))

    def sample_many(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Sample `n` outcomes independently, exactly in proportion to their weights; shape [n]."""
        bits = (rng.random(n) * 2.0**FLOAT_BITS).astype(np.int64)
        outcomes = np.searchsorted(self._boundary_cells, bits, side="right")
        for i in np.flatnonzero(self._boundary_cells[np.maximum(outcomes, 1) - 1] == bits):
            outcomes[i] = self._locate(int(bits[i]), lambda: int(rng.integers(2**FLOAT_BITS)))
        return outcomes

    def _locate(self, prefix: int, next_bits: Callable[[], int]) -> int:
        """Return the outcome that a random point in [0, 1) falls on; `prefix` has the first 53 bits of the point.

        `next_bits` samples 53 further bits of the point. It is called for as long as the bits sampled so far do not
        determine on which side of the boundary between two outcomes the point lies.
        """
        bits, total = FLOAT_BITS, self.cumulative[-1]
        while True:
            low, high = prefix * total, (prefix + 1) * total - 1
            outcome = bisect_right(self.cumulative, low >> bits)
            if outcome == bisect_right(self.cumulative, high >> bits):
                return outcome
            prefix, bits = prefix << FLOAT_BITS | next_bits(), bits + FLOAT_BITS

    @cached_property
    def _boundary_cells(self) -> NDArray[np.int64]:
        """For each outcome, the index of the cell in which the outcome's interval ends.

        The cells are the 2^53 equal parts of [0, 1).
        """
        return np.array([(total << FLOAT_BITS) // self.cumulative[-1] for total in self.cumulative], np.int64)
