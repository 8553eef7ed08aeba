"""Dynamic programming over a grid: the minimum objective for each combination of sums of the other columns.

The grid is small if layers are alike, because sums of costs then have few values when each column is counted in its own
unit, the greatest common divisor of the differences between its steps' costs. The table after a layer is the minimum,
over the layer's steps, of the table before the layer, shifted by the step's costs. The last table is exact, and gives
the optimum for any limits on the columns.
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
from archir.costs.tables import MAX_SUM, Codes, Numbers

MAX_CELLS = 150_000_000
"""Maximum number of cells in the tables of all layers and states."""
MAX_UPDATES = 1_500_000_000
"""Maximum number of cell updates, summed over all steps."""

Sizes = tuple[int, ...]
Steps = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class GridCells:
    """Cells of the last table, sorted by objective.

    `indices` [cells, columns] locates the cells, and `totals` has the sums of all columns.
    """

    indices: Numbers
    totals: Numbers


class Grid:
    """Dynamic-programming table of a network; its axes are the columns other than the objective."""

    def __init__(self, network: Network) -> None:
        """Express the costs of each column in its unit, relative to the minimum in each layer."""
        self.network = network
        self.minima = [layer.costs.min(axis=0) for layer in network.layers]
        relative = [layer.costs - low for layer, low in zip(network.layers, self.minima, strict=True)]
        units = [
            gcd(*(int(cost) for part in relative for cost in np.unique(part[:, i])))
            for i in range(network.column_count)
        ]
        self.units = np.array([1, *(max(unit, 1) for unit in units[1:])], np.int64)
        self.costs = [part // self.units for part in relative]
        self.steps = [_best_steps(layer, costs) for layer, costs in zip(network.layers, self.costs, strict=True)]
        extents = np.cumsum(
            [np.zeros(network.column_count, np.int64), *(part.max(axis=0) for part in self.costs)], axis=0
        )
        self.sizes: list[Sizes] = [tuple(int(end) + 1 for end in row[1:]) for row in extents]
        """Shape of the tables before each layer, and of the last table."""

    @property
    def is_affordable(self) -> bool:
        """Whether the tables fit in memory, their numbers fit in 64 bits, and their computation takes only seconds."""
        states = [len(layer.starts) for layer in self.network.layers]
        cells = sum(
            state_count * prod(size) for state_count, size in zip([*states[1:], 1], self.sizes[1:], strict=True)
        )
        greatest = sum(int(part[:, 0].max()) for part in self.costs)
        return cells <= MAX_CELLS and self.update_count <= MAX_UPDATES and greatest < MAX_SUM

    @property
    def update_count(self) -> int:
        """Number of cell updates, summed over all steps."""
        return sum(len(steps) * prod(size) for steps, size in zip(self.steps, self.sizes, strict=False))

    @cached_property
    def _tables(self) -> tuple[Numbers, list[list[Steps]]]:
        """The last table, and, for each layer and state, the last step on the best path to each cell.

        Cells that no path reaches contain MAX_SUM.
        """
        tables = [np.zeros(self.sizes[0], np.int64)]
        last_steps: list[list[Steps]] = []
        for number, layer in enumerate(self.network.layers):
            size, costs = self.sizes[number + 1], self.costs[number]
            next_tables = [np.full(size, MAX_SUM, np.int64) for _ in range(int(layer.after.max()) + 1)]
            kind = np.min_scalar_type(len(layer.sources))
            last_steps.append([np.zeros(size, kind) for _ in next_tables])
            for step in self.steps[number].tolist():
                before, next_state = tables[int(layer.sources[step])], int(layer.after[step])
                region = tuple(
                    slice(start, start + length)
                    for start, length in zip(costs[step, 1:].tolist(), before.shape, strict=True)
                )
                candidate, target = before + costs[step, 0], next_tables[next_state][region]
                better = candidate < target
                np.copyto(target, candidate, where=better)
                np.copyto(last_steps[-1][next_state][region], step, where=better)
            tables = next_tables
        return tables[0], last_steps

    def table_within(self, limits: Sequence[int | None]) -> Numbers:
        """Return the last table with MAX_SUM in all cells that exceed a limit on some column."""
        table = self._tables[0].copy()
        for axis, limit in enumerate(limits):
            if limit is not None:
                last_index = (limit - self._offsets[axis + 1]) // int(self.units[axis + 1])
                table[(slice(None),) * axis + (slice(max(last_index + 1, 0), None),)] = MAX_SUM
        return table

    @cached_property
    def _offsets(self) -> list[int]:
        """For each column, the sum in the cell of index 0."""
        return [
            sum(int(low[i]) for low in self.minima) + self.network.constant[i] for i in range(self.network.column_count)
        ]

    def front(self, axes: int, limits: Sequence[int | None]) -> GridCells:
        """Return the Pareto-optimal cells within limits, sorted by increasing objective.

        Optimality is in the objective and the first `axes` columns; the other columns only have to be within their
        limits.
        """
        table = self.table_within(limits)
        flat = table.reshape(*table.shape[:axes], -1)
        best_objectives = flat.min(axis=-1)
        running_min = best_objectives
        for axis in range(axes):
            running_min = np.minimum.accumulate(running_min, axis=axis)
        is_optimal = best_objectives < MAX_SUM
        for axis in range(axes):
            prefix = (slice(None),) * axis
            smaller = np.full(running_min.shape, MAX_SUM)
            smaller[(*prefix, slice(1, None))] = running_min[(*prefix, slice(None, -1))]
            is_optimal &= best_objectives < smaller
        indices = np.argwhere(is_optimal)
        other_indices = (
            np.unravel_index(flat[is_optimal].argmin(axis=-1), table.shape[axes:]) if table.ndim > axes else ()
        )
        indices = np.concatenate([indices, *(index[:, None] for index in other_indices)], axis=1)
        objective = best_objectives[is_optimal]
        order = np.lexsort([*indices.T[::-1], objective])
        offsets = np.array(self._offsets, np.int64)
        totals = np.concatenate([objective[:, None], indices * self.units[1:]], axis=1) + offsets
        return GridCells(indices[order], totals[order])

    def codes(self, indices: Numbers) -> Codes:
        """Return one architecture for each of these cells, shape [cells, choices]."""
        codes = np.empty((len(indices), len(self.network.layers)), np.int16)
        states, position = np.zeros(len(indices), np.int64), indices.copy()
        for number in reversed(range(len(self.network.layers))):
            layer, tables = self.network.layers[number], self._tables[1][number]
            steps = np.zeros(len(indices), np.int64)
            for state in np.unique(states).tolist():
                rows = np.flatnonzero(states == state)
                steps[rows] = tables[state][tuple(position[rows].T)]
            codes[:, number] = layer.outcomes[steps]
            position -= self.costs[number][steps, 1:]
            states = layer.sources[steps]
        return codes


def _best_steps(layer: Layer, costs: Numbers) -> Numbers:
    """Return the indices of a layer's steps, keeping the best of those that differ only in the objective."""
    keys = [costs[:, 0], *costs[:, 1:].T, layer.after, layer.sources]
    order = np.lexsort(keys)
    is_first = np.ones(len(order), bool)
    for key in keys[1:]:
        is_first[1:] &= key[order][1:] == key[order][:-1]
    is_first[1:] = ~is_first[1:]
    is_first[0] = True
    result: Numbers = np.sort(order[is_first])
    return result


def evenly_spaced(totals: Numbers, count: int) -> Numbers:
    """Return the indices of about `count` points of a front, spread evenly over the columns after the first.

    `totals` has the objectives [points, columns], sorted by the first column. Limits on the other columns are spaced
    evenly, and the point with the best first column within each combination of limits is taken.
    """
    if count >= len(totals):
        return np.arange(len(totals))
    sums, picked = totals[:, 1:], np.empty(0, np.int64)
    for levels in _level_counts(max(2, round(count ** (1 / sums.shape[1])))):
        sides = [np.linspace(side.min(), side.max(), levels) for side in sums.T]
        best_within = (np.flatnonzero((sums <= corner).all(axis=1))[:1] for corner in product(*sides))
        picked = np.unique(np.concatenate([*best_within, picked]))
        if len(picked) >= count:
            break
    return picked[np.linspace(0, len(picked) - 1, min(count, len(picked))).round().astype(np.int64)]


def _level_counts(levels: int) -> Iterator[int]:
    """Yield four numbers of levels to try: `levels`, and then increasing ones."""
    for _ in range(4):
        yield levels
        levels = levels * 3 // 2 + 1
