"""Positions on an axis of a weight that a smaller one has."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Levels = tuple[tuple[int, int], ...]
"""Positions on an axis, as those of nested loops: (count, stride) from the outermost to the innermost."""
Positions = NDArray[np.int64]
"""One after another, in the order in which the smaller weight has them [n]."""


class Along(NamedTuple):
    """What of an axis a smaller weight has: the positions of loops, after so many others."""

    start: int
    levels: Levels

    @property
    def size(self) -> int:
        """How many positions."""
        return prod(count for count, _ in self.levels)

    @property
    def end(self) -> int:
        """One after the last position."""
        return self.start + 1 + sum((count - 1) * stride for count, stride in self.levels)

    def positions(self) -> list[int]:
        """All of them, in the order in which the smaller weight has them."""
        found = [self.start]
        for count, stride in self.levels:
            found = [position + i * stride for position in found for i in range(count)]
        return found


class Listed(NamedTuple):
    """Positions that are those of no loops, such as the first ones of several layers that stand side by side."""

    places: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many positions."""
        return len(self.places)

    @property
    def end(self) -> int:
        """One after the last position."""
        return max(self.places) + 1

    def positions(self) -> list[int]:
        """All of them, in the order in which the smaller weight has them."""
        return list(self.places)


Part = tuple[Along | Listed, ...]
"""What of each axis of a weight a smaller one has."""


def along(places: Positions) -> Along | Listed:
    """Positions as a loop, if they are those of one."""
    if bool((np.diff(places) == 1).all()):
        return Along(int(places[0]), ((len(places), 1),))
    return Listed(tuple(places.tolist()))


def merged(levels: Levels) -> Levels:
    """The same positions by as few loops as possible."""
    found: list[tuple[int, int]] = []
    for count, stride in levels:
        if found and found[-1][1] == count * stride:
            found[-1] = found[-1][0] * count, stride
        elif count > 1:
            found.append((count, stride))
    return tuple(found) or levels[:1]


def centred(one: Along | Listed, whole: int) -> Along:
    """As many positions in the middle of so many."""
    return Along((whole - one.size) // 2, ((one.size, 1),))
