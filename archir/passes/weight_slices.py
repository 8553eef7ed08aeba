"""Slices of weights: which positions along each axis of a larger weight a smaller weight uses."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Levels = tuple[tuple[int, int], ...]
"""Positions along an axis as nested loops: (count, stride) of each loop, outermost first."""
Positions = NDArray[np.int64]
"""Positions [n] along an axis of the larger weight, in the order of the smaller weight."""


class StridedIndices(NamedTuple):
    """Positions along an axis that nested loops enumerate, starting at `start`."""

    start: int
    levels: Levels

    @property
    def size(self) -> int:
        """Number of positions."""
        return prod(count for count, _ in self.levels)

    @property
    def end(self) -> int:
        """The highest position plus one."""
        return self.start + 1 + sum((count - 1) * stride for count, stride in self.levels)

    def positions(self) -> list[int]:
        """Return all positions as a list, in the order of the smaller weight."""
        result = [self.start]
        for count, stride in self.levels:
            result = [position + i * stride for position in result for i in range(count)]
        return result


class ListedIndices(NamedTuple):
    """Positions along an axis as an explicit list, such as the first channels of several concatenated layers."""

    indices: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of positions."""
        return len(self.indices)

    @property
    def end(self) -> int:
        """The highest position plus one."""
        return max(self.indices) + 1

    def positions(self) -> list[int]:
        """Return all positions as a list, in the order of the smaller weight."""
        return list(self.indices)


WeightSlice = tuple[StridedIndices | ListedIndices, ...]
"""The positions along each axis of a larger weight that a smaller weight uses."""


def as_indices(positions: Positions) -> StridedIndices | ListedIndices:
    """Return positions as a single loop if they are consecutive, else as a list."""
    if bool((np.diff(positions) == 1).all()):
        return StridedIndices(int(positions[0]), ((len(positions), 1),))
    return ListedIndices(tuple(positions.tolist()))


def merge_levels(levels: Levels) -> Levels:
    """Return the smallest number of nested loops that enumerate the same positions."""
    loops: list[tuple[int, int]] = []
    for count, stride in levels:
        if loops and loops[-1][1] == count * stride:
            loops[-1] = loops[-1][0] * count, stride
        elif count > 1:
            loops.append((count, stride))
    return tuple(loops) or levels[:1]


def centred_indices(indices: StridedIndices | ListedIndices, length: int) -> StridedIndices:
    """Return the centre crop of an axis of `length` positions that has the size of `indices`."""
    return StridedIndices((length - indices.size) // 2, ((indices.size, 1),))
