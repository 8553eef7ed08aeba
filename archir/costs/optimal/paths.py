"""All paths whose objective may be at most a cutoff, layer by layer.

A beginning of a path is left out if integers prove that nothing within the rooms is at its end: by what is left of each
column alone, or by all of them together with Lagrange multipliers. Of beginnings that end in one state and have used as
much of every room, those of the least objectives go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from archir.costs.optimal.network import Layer, Network
from archir.costs.tables import MOST_SUM, Codes, Numbers
from archir.diagnostics.work import charge

AT_ONCE = 400_000
"""Steps that are tried at once."""
STEPS_A_UNIT = 5
"""Steps, times columns, that take a unit of work."""
FEW = 128
"""Beginnings that are not worth comparing."""
ALIKE, SELDOM = 0.9, 8
"""Where more than such a part is kept, only every so many layers' beginnings are compared."""


class TooManyPathsError(Exception):
    """More beginnings than are followed, or no time is left."""


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths, sorted by their objective, and what they cost: [paths, columns], constants left out. `followed` is how
    many beginnings there were at once."""

    codes: Codes
    totals: Numbers
    followed: int = 0


@dataclass(frozen=True, eq=False)
class _Row:
    """Beginnings after a layer: the state that each is in, what it costs, how much its bound may still grow, and where
    it comes from."""

    states: Numbers
    totals: Numbers
    slack: Numbers
    before: Numbers
    steps: Numbers


def paths(
    network: Network,
    rooms: Sequence[int],
    weights: Sequence[int],
    cutoff: int,
    best: int = 1,
    most: int = 1_000_000,
    beam: bool = False,
    late: Callable[[], bool] = lambda: False,
) -> Paths:
    """The paths within the rooms, constants left out, whose objective is at most `cutoff`: all, but for those that
    `best` others are as good as. With `beam`, of more than `most` beginnings those of the least bounds are followed.

    Raises TooManyPathsError.
    """
    return _Follow(network, rooms, weights, cutoff, best, most, beam, late).found()


class _Follow:
    def __init__(
        self,
        network: Network,
        rooms: Sequence[int],
        weights: Sequence[int],
        cutoff: int,
        best: int,
        most: int,
        beam: bool,
        late: Callable[[], bool],
    ) -> None:
        self.network, self.best, self.most, self.beam, self.late = network, best, most, beam, late
        self.often = 1
        self.rooms = np.array([cutoff, *rooms], np.int64)
        self.weights = np.array(weights, np.int64)
        self.room = sum(int(weight) * int(room) for weight, room in zip(weights, self.rooms, strict=True))
        self.together = network.least(weights)
        self.slack = self.room - int(self.together[0][0])
        self.layers, self.growth = [], []
        sides = zip(network.layers, network.far(weights), self.together, self.together[1:], strict=False)
        for layer, far, before, after in sides:
            growth = layer.costs @ self.weights + after[layer.after] - before[layer.sources]
            fine = growth + far[layer.sources] + before[layer.sources] <= self.room
            self.layers.append(layer.only(fine))
            self.growth.append(growth[fine])
        self.alone = least(self.layers, network.columns)

    def found(self) -> Paths:
        nothing = np.zeros(1, np.int64)
        totals = np.zeros((1, self.network.columns), np.int64)
        rows = [_Row(nothing, totals, np.full(1, self.slack), nothing, nothing)]
        for number, layer in enumerate(self.layers):
            rows.append(self._next(number, layer, rows[-1]))
        order = np.argsort(rows[-1].totals[:, 0], kind="stable")
        codes = np.empty((len(order), len(self.layers)), np.int16)
        here = order
        for number in reversed(range(len(self.layers))):
            row = rows[number + 1]
            codes[:, number] = self.layers[number].outcomes[row.steps[here]]
            here = row.before[here]
        return Paths(codes, rows[-1].totals[order], max(len(row.states) for row in rows))

    def _next(self, number: int, layer: Layer, row: _Row) -> _Row:
        tries = layer.counts[row.states]
        (cuts,) = np.nonzero(np.diff(np.cumsum(tries) // AT_ONCE))
        ends = [0, *(cuts + 1).tolist(), len(tries)]
        parts = [self._part(number, layer, row, slice(*pair)) for pair in pairwise(ends)]
        columns = zip(*((one.states, one.totals, one.slack, one.before, one.steps) for one in parts), strict=True)
        found = _Row(*map(np.concatenate, columns))
        if len(found.states) > FEW and number % self.often == 0:
            apart = self._apart(found)
            self.often = 1 if len(apart.states) < ALIKE * len(found.states) else SELDOM
            found = apart
        if len(found.states) > self.most:
            if not self.beam:
                raise TooManyPathsError
            found = _taken(found, np.argpartition(-found.slack, self.most)[: self.most])
        return found

    def _part(self, number: int, layer: Layer, row: _Row, part: slice) -> _Row:
        """Some of the beginnings, one step further."""
        if self.late():
            raise TooManyPathsError
        states = row.states[part]
        counts = layer.counts[states]
        before = np.repeat(np.arange(len(states)), counts)
        charge(len(before) * (1 + self.network.columns) / STEPS_A_UNIT)
        offsets = np.arange(len(before)) - np.repeat(np.cumsum(counts) - counts, counts)
        steps = layer.starts[states][before] + offsets
        slack = row.slack[part][before] - self.growth[number][steps]
        fine = np.flatnonzero(slack >= 0)
        before, steps, slack = before[fine], steps[fine], slack[fine]
        totals = row.totals[part][before] + layer.costs[steps]
        after = layer.after[steps]
        fine = np.flatnonzero((totals + self.alone[number + 1][after] <= self.rooms).all(axis=1))
        return _Row(after[fine], totals[fine], slack[fine], before[fine] + part.start, steps[fine])

    def _apart(self, row: _Row) -> _Row:
        """Of beginnings that differ in the objective alone, the best ones."""
        keys = [row.totals[:, 0], *row.totals[:, 1:].T, row.states]
        order = np.lexsort(keys)
        same = np.ones(len(order), bool)
        same[0] = False
        for key in keys[1:]:
            same[1:] &= key[order][1:] == key[order][:-1]
        if not same.any():
            return row
        places = np.arange(len(order))
        first = np.maximum.accumulate(np.where(same, 0, places))
        return _taken(row, order[places - first < self.best])


def _taken(row: _Row, which: NDArray[np.intp]) -> _Row:
    return _Row(row.states[which], row.totals[which], row.slack[which], row.before[which], row.steps[which])


def least(layers: Sequence[Layer], columns: int) -> list[Numbers]:
    """For each layer and state, and at the end, the least that is still to come in each column, alone."""
    found = [np.zeros((1, columns), np.int64)]
    for layer in reversed(layers):
        least = np.full((len(layer.starts), columns), MOST_SUM)
        np.minimum.at(least, layer.sources, layer.costs + found[-1][layer.after])
        found.append(np.minimum(least, MOST_SUM))
    return found[::-1]
