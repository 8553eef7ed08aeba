"""How many architectures have each total: exact counts, as arrays.

Counts are in limbs of 36 bits, the least significant first, or in a single one where 62 bits are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple, TypeAlias

from archir.utils.arrays import NDArray, np

Keys: TypeAlias = "NDArray[np.int64]"
Counts: TypeAlias = "NDArray[np.int64]"

BITS, SINGLE = 36, 62
MOST_DENSE = 40_000_000
"""Cells in which totals are added up; where it would take more, they are sorted."""


class TooManyTotalsError(Exception):
    """More different totals than are told apart."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Totals, ascending, and how many architectures have each."""

    keys: Keys
    counts: Counts

    @cached_property
    def sums(self) -> Counts:
        """How many architectures have one of the first 0, 1, 2, ... totals."""
        found = np.zeros((len(self.keys) + 1, self.counts.shape[1]), np.int64)
        np.cumsum(self.counts, axis=0, out=found[1:])
        return found

    @cached_property
    def size(self) -> int:
        """How many architectures there are in all."""
        return exact(self.counts.sum(axis=0))

    @cached_property
    def unit(self) -> int:
        """What the differences between totals are multiples of."""
        return int(np.gcd.reduce(self.keys - self.keys[:1]))

    def between(self, least: int, most: int) -> Spread:
        """The part whose totals are from `least` to `most`."""
        first, last = np.searchsorted(self.keys, [least, most + 1])
        if first == 0 and last == len(self.keys):
            return self
        return Spread(self.keys[first:last], self.counts[first:last])


def empty_sum() -> Spread:
    """The total 0, once."""
    return Spread(np.zeros(1, np.int64), np.ones((1, 1), np.int64))


class Part(NamedTuple):
    """A spread, what is added to its totals, and what its counts are multiplied with."""

    base: Spread
    shift: int
    times: int


def lattice(parts: Sequence[Part]) -> tuple[int, int, int]:
    """The least total, what totals lie apart, and how many there are at most."""
    low = min(int(part.base.keys[0]) + part.shift for part in parts)
    high = max(int(part.base.keys[-1]) + part.shift for part in parts)
    firsts = (int(part.base.keys[0]) + part.shift - low for part in parts)
    unit = gcd(*firsts, *(part.base.unit for part in parts)) or 1
    return low, unit, (high - low) // unit + 1


def merged(parts: Sequence[Part], entries: int) -> Spread:
    """All parts together. Raises TooManyTotalsError if there are more than so many totals."""
    size = sum(part.base.size * part.times for part in parts)
    limbs = limbs_for(size)
    low, unit, cells = lattice(parts)
    rows = sum(len(part.base.keys) for part in parts)
    if cells <= min(MOST_DENSE, 64 * rows):
        dense = np.zeros((cells, limbs), np.int64)
        for base, shift, times in parts:
            dense[(base.keys + (shift - low)) // unit] += widened(base.counts, limbs) * times
            carry(dense)
        (filled,) = np.nonzero(dense.any(axis=1))
        keys, counts = filled * unit + low, dense[filled]
    elif rows > 4 * entries:
        raise TooManyTotalsError
    else:
        keys = np.concatenate([base.keys + shift for base, shift, _ in parts])
        counts = np.concatenate([widened(base.counts, limbs) * times for base, _, times in parts])
        carry(counts)
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        keys, counts = keys[starts], np.add.reduceat(counts, starts, axis=0)
        carry(counts)
    if len(keys) > entries:
        raise TooManyTotalsError
    return Spread(keys, counts)


def exact(limbs: Counts) -> int:
    """The number that limbs make."""
    return sum(int(limb) << BITS * i for i, limb in enumerate(limbs))


def floats(counts: Counts) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Counts as mantissas, 0 or from 1/2 to 1, and exponents of 2: rounded to 53 bits, however large they are."""
    limbs = counts.shape[1]
    top = np.maximum(limbs - 1 - (counts[:, ::-1] != 0).argmax(axis=1), min(2, limbs - 1))
    rows, leading = np.arange(len(counts)), np.zeros(len(counts))
    for below in range(min(3, limbs)):
        leading += counts[rows, top - below] * 2.0 ** (-BITS * below)
    mantissas, exponents = np.frexp(leading)
    return mantissas, exponents + BITS * top


def limbs_for(size: int) -> int:
    """How many limbs hold numbers of up to `size`."""
    return 1 if size.bit_length() <= SINGLE else size.bit_length() // BITS + 1


def widened(counts: Counts, limbs: int) -> Counts:
    """Counts in more limbs."""
    if counts.shape[1] == limbs:
        return counts
    wide = np.zeros((len(counts), limbs), np.int64)
    wide[:, : counts.shape[1]] = counts
    carry(wide)
    return wide


def carry(counts: Counts) -> None:
    """Leave 36 bits in each limb but the last."""
    for limb in range(counts.shape[1] - 1):
        counts[:, limb + 1] += counts[:, limb] >> BITS
        counts[:, limb] &= 2**BITS - 1


DIGIT, ROWS = 16, 2**20
"""So many products of digits of 16 bits add up to less than 2^53, and are exact in floating point."""


def product(one: Counts, other: Counts) -> int:
    """The sum of the products of counts, row by row."""
    total = 0
    for start in range(0, len(one), ROWS):
        digits, places = _digits(one[start : start + ROWS])
        others, other_places = _digits(other[start : start + ROWS])
        found = digits @ others.T
        for i, place in enumerate(places):
            total += sum(int(found[i, j]) << place + other_places[j] for j in range(len(other_places)))
    return total


def _digits(counts: Counts) -> tuple[NDArray[np.float64], list[int]]:
    """Counts as rows of digits, and the bit at which each begins; limbs may be anything below 2^63."""
    places = [
        (limb, bit)
        for limb in range(counts.shape[1])
        for bit in range(0, int(counts[:, limb].max()).bit_length(), DIGIT)
    ]
    digits = np.empty((len(places), len(counts)))
    for row, (limb, bit) in zip(digits, places, strict=True):
        row[:] = counts[:, limb] >> bit & 2**DIGIT - 1
    return digits, [BITS * limb + bit for limb, bit in places]
