"""How many architectures have each total: exact counts, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Counts = NDArray[np.int64]

BITS = 40
"""Of a limb: counts are exact, in several limbs, least significant first."""
MOST_DENSE = 16_000_000


class TooManyTotalsError(Exception):
    """More different totals than are told apart."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Totals, ascending, and how many architectures have each."""

    keys: Keys
    counts: Counts

    @cached_property
    def floats(self) -> NDArray[np.float64]:
        """The counts, rounded to 53 bits."""
        found: NDArray[np.float64] = self.counts @ 2.0 ** (BITS * np.arange(self.counts.shape[1]))
        return found

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """How many architectures have one of the first 0, 1, 2, ... totals, rounded to 53 bits."""
        return np.concatenate([[0.0], np.cumsum(self.floats)])

    def exact(self) -> NDArray[np.object_]:
        """The counts as Python integers."""
        total = np.zeros(len(self.keys), object)
        for limb in reversed(range(self.counts.shape[1])):
            total = total * 2**BITS + self.counts[:, limb].astype(object)
        return total

    def between(self, least: int, most: int) -> Spread:
        """The part whose totals are from `least` to `most`."""
        first, last = np.searchsorted(self.keys, [least, most + 1])
        if first == 0 and last == len(self.keys):
            return self
        return Spread(self.keys[first:last], self.counts[first:last])


class Poly:
    """A distribution as shifted, multiplied copies of others."""

    def __init__(self, terms: Mapping[Spread, Mapping[int, int]]) -> None:
        self.terms = terms

    @property
    def size(self) -> int:
        """How many copies."""
        return sum(len(shifts) for shifts in self.terms.values())

    def at(self, keys: Keys) -> NDArray[np.float64]:
        """How many architectures have each of these totals, rounded to 53 bits."""
        found = np.zeros(len(keys))
        for base, shifts in self.terms.items():
            numbers = base.floats
            for shift, times in shifts.items():
                wanted = keys - shift
                place = np.searchsorted(base.keys, wanted)
                place[place == len(base.keys)] = 0
                found += times * np.where(base.keys[place] == wanted, numbers[place], 0.0)
        return found

    def written(self, least: int, most: int, entries: int) -> Spread:
        """As one distribution, of the totals from `least` to `most`. Raises TooManyTotals."""
        parts = [
            (cropped, shift, times)
            for base, shifts in self.terms.items()
            for shift, times in shifts.items()
            if len((cropped := base.between(least - shift, most - shift)).keys)
        ]
        if not parts:
            return next(iter(self.terms)).between(1, 0)
        if len(parts) == 1 and parts[0][1:] == (0, 1):
            return parts[0][0]
        low = min(int(base.keys[0]) + shift for base, shift, _ in parts)
        high = max(int(base.keys[-1]) + shift for base, shift, _ in parts)
        firsts = (int(base.keys[0]) + shift - low for base, shift, _ in parts)
        unit = gcd(*firsts, *(_unit(base) for base, _, _ in parts)) or 1
        cells = (high - low) // unit + 1
        limbs = parts[0][0].counts.shape[1]
        if cells <= MOST_DENSE and cells <= 64 * sum(len(base.keys) for base, _, _ in parts):
            dense = np.zeros((cells, limbs), np.int64)
            for base, shift, times in parts:
                dense[(base.keys + (shift - low)) // unit] += base.counts * times
                _carry(dense)
            (filled,) = np.nonzero(dense.any(axis=1))
            if len(filled) > entries:
                raise TooManyTotalsError
            return Spread(filled * unit + low, dense[filled])
        keys = np.concatenate([base.keys + shift for base, shift, _ in parts])
        counts = np.concatenate([base.counts * times for base, _, times in parts])
        if len(keys) > 4 * entries + 4096:
            raise TooManyTotalsError
        _carry(counts)
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        merged = np.add.reduceat(counts, starts, axis=0)
        _carry(merged)
        if len(starts) > entries:
            raise TooManyTotalsError
        return Spread(keys[starts], merged)


def _carry(counts: Counts) -> None:
    for limb in range(counts.shape[1] - 1):
        counts[:, limb + 1] += counts[:, limb] >> BITS
        counts[:, limb] &= 2**BITS - 1


def _unit(spread: Spread) -> int:
    return int(np.gcd.reduce(spread.keys - spread.keys[0])) if len(spread.keys) > 1 else 0
