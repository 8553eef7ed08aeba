"""The least objective for all sums of the other columns at once: a table over these sums, where they are few.

Sums of costs are few where layers are alike: each column is counted in its unit, the greatest common divisor of what
its steps differ by. The table of a layer is the least, over the layer's steps, of that of the layer before it, moved by
what the step costs. All of it is exact, and one table answers every question of the kind "the best within these
limits".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.costs.optimal.network import Layer, Network
from archir.costs.tables import MOST_SUM, Codes, Numbers

MOST_CELLS = 150_000_000
"""Of the tables of all layers and states."""
MOST_MOVED = 1_500_000_000
"""Cells that steps move, all together."""

Sizes = tuple[int, ...]
Steps = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Cells:
    """Cells of a grid's table: their places [cells, columns], and the sums of all columns; least objectives first."""

    places: Numbers
    totals: Numbers


class Grid:
    """The table of a network. Columns after the objective are its axes."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.lows = [layer.costs.min(axis=0) for layer in network.layers]
        above = [layer.costs - low for layer, low in zip(network.layers, self.lows, strict=True)]
        units = [gcd(*(int(one) for part in above for one in np.unique(part[:, i]))) for i in range(network.columns)]
        self.units = np.array([1, *(max(unit, 1) for unit in units[1:])], np.int64)
        self.costs = [part // self.units for part in above]
        self.moved = [_distinct(layer, costs) for layer, costs in zip(network.layers, self.costs, strict=True)]
        ends = np.cumsum([np.zeros(network.columns, np.int64), *(part.max(axis=0) for part in self.costs)], axis=0)
        self.sizes: list[Sizes] = [tuple(int(end) + 1 for end in row[1:]) for row in ends]
        """Of the table before each layer, and at the end."""

    @property
    def affordable(self) -> bool:
        """Whether the tables fit into memory and their numbers into 64 bits, and take seconds."""
        states = [len(layer.starts) for layer in self.network.layers]
        cells = sum(n * prod(size) for n, size in zip([*states[1:], 1], self.sizes[1:], strict=True))
        greatest = sum(int(part[:, 0].max()) for part in self.costs)
        return cells <= MOST_CELLS and self.work <= MOST_MOVED and greatest < MOST_SUM

    @property
    def work(self) -> int:
        """Cells that steps move, all together."""
        return sum(len(steps) * prod(size) for steps, size in zip(self.moved, self.sizes, strict=False))

    @cached_property
    def _tables(self) -> tuple[Numbers, list[list[Steps]]]:
        """The last table, where MOST_SUM is for what no path has; and by layer and state, by which step one came."""
        here = [np.zeros(self.sizes[0], np.int64)]
        came: list[list[Steps]] = []
        for number, layer in enumerate(self.network.layers):
            size, costs = self.sizes[number + 1], self.costs[number]
            after = [np.full(size, MOST_SUM, np.int64) for _ in range(int(layer.after.max()) + 1)]
            kind = np.min_scalar_type(len(layer.sources))
            came.append([np.zeros(size, kind) for _ in after])
            for step in self.moved[number].tolist():
                before, there = here[int(layer.sources[step])], int(layer.after[step])
                region = tuple(
                    slice(start, start + length)
                    for start, length in zip(costs[step, 1:].tolist(), before.shape, strict=True)
                )
                moved, known = before + costs[step, 0], after[there][region]
                better = moved < known
                np.copyto(known, moved, where=better)
                np.copyto(came[-1][there][region], step, where=better)
            here = after
        return here[0], came

    def within(self, limits: Sequence[int | None]) -> Numbers:
        """The table without what is beyond limits of its columns."""
        table = self._tables[0].copy()
        for axis, limit in enumerate(limits):
            if limit is not None:
                room = (limit - self._offsets[axis + 1]) // int(self.units[axis + 1])
                table[(slice(None),) * axis + (slice(max(room + 1, 0), None),)] = MOST_SUM
        return table

    @cached_property
    def _offsets(self) -> list[int]:
        """The sums of the cell 0."""
        return [sum(int(low[i]) for low in self.lows) + self.network.constant[i] for i in range(self.network.columns)]

    def front(self, axes: int, limits: Sequence[int | None]) -> Cells:
        """The cells within limits than which none is better in the objective or one of the first `axes` columns, and as
        good in the others; the least objective first."""
        table = self.within(limits)
        flat = table.reshape(*table.shape[:axes], -1)
        least = flat.min(axis=-1)
        below = least
        for axis in range(axes):
            below = np.minimum.accumulate(below, axis=axis)
        best = least < MOST_SUM
        for axis in range(axes):
            first = (slice(None),) * axis
            smaller = np.full(below.shape, MOST_SUM)
            smaller[(*first, slice(1, None))] = below[(*first, slice(None, -1))]
            best &= least < smaller
        places = np.argwhere(best)
        rest = np.unravel_index(flat[best].argmin(axis=-1), table.shape[axes:]) if table.ndim > axes else ()
        places = np.concatenate([places, *(one[:, None] for one in rest)], axis=1)
        objective = least[best]
        order = np.lexsort([*places.T[::-1], objective])
        offsets = np.array(self._offsets, np.int64)
        totals = np.concatenate([objective[:, None], places * self.units[1:]], axis=1) + offsets
        return Cells(places[order], totals[order])

    def codes(self, places: Numbers) -> Codes:
        """An architecture of each of these cells."""
        found = np.empty((len(places), len(self.network.layers)), np.int16)
        states, at = np.zeros(len(places), np.int64), places.copy()
        for number in reversed(range(len(self.network.layers))):
            layer, tables = self.network.layers[number], self._tables[1][number]
            steps = np.zeros(len(places), np.int64)
            for state in np.unique(states).tolist():
                rows = np.flatnonzero(states == state)
                steps[rows] = tables[state][tuple(at[rows].T)]
            found[:, number] = layer.outcomes[steps]
            at -= self.costs[number][steps, 1:]
            states = layer.sources[steps]
        return found


def _distinct(layer: Layer, costs: Numbers) -> Numbers:
    """The steps of a layer; of those that differ in the objective alone, the best one."""
    keys = [costs[:, 0], *costs[:, 1:].T, layer.after, layer.sources]
    order = np.lexsort(keys)
    first = np.ones(len(order), bool)
    for key in keys[1:]:
        first[1:] &= key[order][1:] == key[order][:-1]
    first[1:] = ~first[1:]
    first[0] = True
    found: Numbers = np.sort(order[first])
    return found


def spread(totals: Numbers, count: int) -> Numbers:
    """About so many of a front's points, whose objectives are [points, columns], the least of the first one first: the
    best within limits that lie evenly over the other columns. Their positions."""
    if count >= len(totals):
        return np.arange(len(totals))
    sums, found = totals[:, 1:], np.empty(0, np.int64)
    for levels in _finer(max(2, round(count ** (1 / sums.shape[1])))):
        sides = [np.linspace(side.min(), side.max(), levels) for side in sums.T]
        firsts = (np.flatnonzero((sums <= corner).all(axis=1))[:1] for corner in product(*sides))
        found = np.unique(np.concatenate([*firsts, found]))
        if len(found) >= count:
            break
    return found[np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(np.int64)]


def _finer(levels: int) -> Iterator[int]:
    """So many levels, and more and more."""
    for _ in range(4):
        yield levels
        levels = levels * 3 // 2 + 1
