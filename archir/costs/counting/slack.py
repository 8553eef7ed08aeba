"""Numbers for what bounds leave: a lattice from what allows one way of going on to what allows them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

from archir.utils.arrays import NDArray, np

Numbers: TypeAlias = "NDArray[np.int64]"

MOST_CELLS = 2**24
"""Numbers that are looked up; among more, they are searched for."""


@dataclass(frozen=True)
class Lattice:
    """Rooms, a value for each bound, from `least` to `greatest` in steps of `units`: in between they are rounded, `up`
    or down."""

    least: Sequence[int]
    greatest: Sequence[int]
    units: Sequence[int]
    up: bool

    @cached_property
    def sizes(self) -> list[int]:
        """How many values there are for each bound; the last is the greatest, whatever the unit."""
        ends = zip(self.least, self.greatest, self.units, strict=True)
        return [-((least - greatest) // unit) + 1 for least, greatest, unit in ends]

    @property
    def small(self) -> bool:
        """Whether numbers can be looked up."""
        return prod(self.sizes) <= MOST_CELLS

    def numbers(self, rooms: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
        """Which of these rooms allow anything, and their numbers."""
        alive = [room >= least for room, least in zip(rooms, self.least, strict=True)]
        (some,) = np.nonzero(np.logical_and.reduce(alive))
        found = np.zeros(len(some), np.int64)
        for i, size in enumerate(self.sizes):
            room = np.minimum(rooms[i][some], self.greatest[i]) - self.least[i]
            if self.units[i] > 1:
                last = room == self.greatest[i] - self.least[i]
                room = np.where(last, size - 1, (room + (self.units[i] - 1 if self.up else 0)) // self.units[i])
            found = found * size + room
        return some, found

    def rooms(self, numbers: Numbers) -> list[Numbers]:
        """The rooms of these numbers."""
        found: list[Numbers] = []
        for i, size in reversed(list(enumerate(self.sizes))):
            numbers, place = np.divmod(numbers, size)
            found.append(np.minimum(self.least[i] + place * self.units[i], self.greatest[i]))
        return found[::-1]

    def distinct(self, parts: Sequence[Numbers]) -> Numbers:
        """The numbers of all parts, ascending, each once."""
        if not self.small:
            numbers = np.sort(np.concatenate(parts))
            return numbers[np.diff(numbers, prepend=-1) > 0]
        marks = np.zeros(prod(self.sizes), bool)
        for part in parts:
            marks[part] = True
        return np.flatnonzero(marks)
