"""Histograms of totals as arrays, with exact numbers of architectures of any size.

Numbers are split into limbs of 36 bits, the least significant first; a single limb is used if 62 bits suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.int64]
"""Distinct totals [n] in ascending order."""
Counts: TypeAlias = NDArray[np.int64]
"""Exact numbers as limbs [n, limbs]."""

LIMB_BITS, SINGLE_LIMB_BITS = 36, 62
"""Bits per limb, and maximum bits of a number that fits in a single limb."""
MAX_DENSE_CELLS = 40_000_000
"""Maximum number of cells of a dense array to add up histograms in; for wider ranges, totals are sorted."""


class TooManyTotalsError(Exception):
    """A histogram has more distinct totals than its limit allows."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Histogram of totals: the distinct totals `keys` [n] in ascending order, and the number at each total.

    The numbers are limbs [n, limbs].
    """

    keys: Keys
    counts: Counts

    @cached_property
    def cumulative(self) -> Counts:
        """Cumulative numbers [n + 1, limbs]: entry i is the number of architectures at the first i totals."""
        sums = np.zeros((len(self.keys) + 1, self.counts.shape[1]), np.int64)
        np.cumsum(self.counts, axis=0, out=sums[1:])
        return sums

    @cached_property
    def size(self) -> int:
        """Number of architectures."""
        return to_int(self.counts.sum(axis=0))

    @cached_property
    def unit(self) -> int:
        """Greatest common divisor of the differences between totals."""
        return int(np.gcd.reduce(self.keys - self.keys[:1]))

    def crop(self, least: int, most: int) -> Histogram:
        """Return the part of the histogram with totals from `least` to `most`."""
        first, last = np.searchsorted(self.keys, [least, most + 1])
        if first == 0 and last == len(self.keys):
            return self
        return Histogram(self.keys[first:last], self.counts[first:last])


def zero_histogram() -> Histogram:
    """Return the histogram of an empty sum: a single architecture with total 0."""
    return Histogram(np.zeros(1, np.int64), np.ones((1, 1), np.int64))


class ShiftedHistogram(NamedTuple):
    """Histogram with all totals increased by `shift` and all numbers multiplied by `times`."""

    base: Histogram
    shift: int
    times: int


def total_grid(parts: Sequence[ShiftedHistogram]) -> tuple[int, int, int]:
    """Return a grid that contains all parts' totals: smallest total, common unit, and number of points."""
    low = min(int(part.base.keys[0]) + part.shift for part in parts)
    high = max(int(part.base.keys[-1]) + part.shift for part in parts)
    offsets = (int(part.base.keys[0]) + part.shift - low for part in parts)
    unit = gcd(*offsets, *(part.base.unit for part in parts)) or 1
    return low, unit, (high - low) // unit + 1


def merge_histograms(parts: Sequence[ShiftedHistogram], entries: int) -> Histogram:
    """Return the sum of the parts as one histogram. Raises TooManyTotalsError if it has more than `entries` totals."""
    size = sum(part.base.size * part.times for part in parts)
    limbs = limbs_for(size)
    low, unit, cells = total_grid(parts)
    rows = sum(len(part.base.keys) for part in parts)
    if cells <= min(MAX_DENSE_CELLS, 64 * rows):
        dense = np.zeros((cells, limbs), np.int64)
        for base, shift, times in parts:
            dense[(base.keys + (shift - low)) // unit] += widen(base.counts, limbs) * times
            carry(dense)
        (filled,) = np.nonzero(dense.any(axis=1))
        keys, counts = filled * unit + low, dense[filled]
    elif rows > 4 * entries:
        raise TooManyTotalsError
    else:
        keys = np.concatenate([base.keys + shift for base, shift, _ in parts])
        counts = np.concatenate([widen(base.counts, limbs) * times for base, _, times in parts])
        carry(counts)
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        keys, counts = keys[starts], np.add.reduceat(counts, starts, axis=0)
        carry(counts)
    if len(keys) > entries:
        raise TooManyTotalsError
    return Histogram(keys, counts)


def to_int(limbs: Counts) -> int:
    """Return the integer that limbs represent."""
    return sum(int(limb) << LIMB_BITS * i for i, limb in enumerate(limbs))


def to_floats(counts: Counts) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return exact numbers as mantissas (0, or from 1/2 to 1) and exponents of 2, rounded to 53 bits.

    This works for numbers of any size.
    """
    limbs = counts.shape[1]
    top = np.maximum(limbs - 1 - (counts[:, ::-1] != 0).argmax(axis=1), min(2, limbs - 1))
    rows, leading = np.arange(len(counts)), np.zeros(len(counts))
    for below in range(min(3, limbs)):
        leading += counts[rows, top - below] * 2.0 ** (-LIMB_BITS * below)
    mantissas, exponents = np.frexp(leading)
    return mantissas, exponents + LIMB_BITS * top


def limbs_for(size: int) -> int:
    """Return the number of limbs needed for numbers up to `size`."""
    return 1 if size.bit_length() <= SINGLE_LIMB_BITS else size.bit_length() // LIMB_BITS + 1


def widen(counts: Counts, limbs: int) -> Counts:
    """Return the same numbers with a larger number of limbs."""
    if counts.shape[1] == limbs:
        return counts
    wide = np.zeros((len(counts), limbs), np.int64)
    wide[:, : counts.shape[1]] = counts
    carry(wide)
    return wide


def carry(counts: Counts) -> None:
    """Propagate carries in place, so that all limbs except the last have 36 bits."""
    for limb in range(counts.shape[1] - 1):
        counts[:, limb + 1] += counts[:, limb] >> LIMB_BITS
        counts[:, limb] &= 2**LIMB_BITS - 1


DIGIT_BITS, PRODUCT_ROWS = 16, 2**20
"""Bits per digit, and number of rows multiplied together.

They are chosen such that sums of products stay below 2^53, up to which floats represent integers exactly.
"""


def dot_product(left: Counts, right: Counts) -> int:
    """Return the exact dot product of two columns of numbers."""
    total = 0
    for start in range(0, len(left), PRODUCT_ROWS):
        left_digits, left_places = _digits(left[start : start + PRODUCT_ROWS])
        right_digits, right_places = _digits(right[start : start + PRODUCT_ROWS])
        products = left_digits @ right_digits.T
        for i, place in enumerate(left_places):
            total += sum(int(products[i, j]) << place + right_places[j] for j in range(len(right_places)))
    return total


def _digits(counts: Counts) -> tuple[NDArray[np.float64], list[int]]:
    """Split numbers into rows of digits, and return the rows with the bit position of each.

    Limbs may have any value below 2^63.
    """
    places = [
        (limb, bit)
        for limb in range(counts.shape[1])
        for bit in range(0, int(counts[:, limb].max()).bit_length(), DIGIT_BITS)
    ]
    digits = np.empty((len(places), len(counts)))
    for row, (limb, bit) in zip(digits, places, strict=True):
        row[:] = counts[:, limb] >> bit & 2**DIGIT_BITS - 1
    return digits, [LIMB_BITS * limb + bit for limb, bit in places]
