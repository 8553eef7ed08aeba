"""The front of a network's columns, by following every beginning that another one is not better than in all of them.

Of beginnings that end in one state, those stay that no other one is at least as good as in every column, the bounded
ones included (label setting for shortest paths of several objectives; Martins 1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archir.costs.optimal.network import Layer, Network
from archir.costs.optimal.paths import TooManyPathsError, least
from archir.costs.tables import MOST_SUM, Codes, Numbers

MOST_LABELS = 20_000
"""Beginnings after a layer."""
AT_ONCE = 256
"""Beginnings that are compared with all that are kept."""


@dataclass(frozen=True)
class _Labels:
    states: Numbers
    totals: Numbers
    before: Numbers
    steps: Numbers


def front(network: Network, axes: int, limits: Sequence[int | None], compared: float) -> tuple[Codes, Numbers]:
    """The codes and sums [paths, columns] of those paths within limits than which none is better in the objective or
    one of the first `axes` columns, and as good in the others; the least objective first.

    Raises TooManyPathsError if more than about so many pairs were to be `compared`.
    """
    rooms = np.array(
        [MOST_SUM, *(MOST_SUM if one is None else one - c for one, c in zip(limits, network.constant[1:], strict=True))]
    )
    alone = least(network.layers, network.columns)
    nothing = np.zeros(1, np.int64)
    pairs = _Pairs(compared)
    rows = [_Labels(nothing, np.zeros((1, network.columns), np.int64), nothing, nothing)]
    for number, layer in enumerate(network.layers):
        last = number + 1 == len(network.layers)
        rows.append(_next(layer, rows[-1], rooms, alone[number + 1], axes + 1 if last else network.columns, pairs))
    order = np.lexsort(rows[-1].totals.T[::-1])
    codes, here = np.empty((len(order), len(network.layers)), np.int16), order
    for number in reversed(range(len(network.layers))):
        codes[:, number] = network.layers[number].outcomes[rows[number + 1].steps[here]]
        here = rows[number + 1].before[here]
    return codes, rows[-1].totals[order] + np.array(network.constant, np.int64)


def _next(layer: Layer, row: _Labels, rooms: Numbers, alone: Numbers, columns: int, pairs: _Pairs) -> _Labels:
    """Beginnings one step further, of which those stay that are best in the first columns."""
    counts = layer.counts[row.states]
    pairs.spend(int(counts.sum()))
    before = np.repeat(np.arange(len(counts)), counts)
    steps = layer.starts[row.states][before] + np.arange(len(before)) - np.repeat(np.cumsum(counts) - counts, counts)
    totals, after = row.totals[before] + layer.costs[steps], layer.after[steps]
    fine = np.flatnonzero((totals + alone[after] <= rooms).all(axis=1))
    kept = [fine[after[fine] == state] for state in np.unique(after[fine])]
    best = np.concatenate([one[_best(totals[one, :columns], pairs)] for one in kept]) if kept else fine
    if len(best) > MOST_LABELS:
        raise TooManyPathsError
    return _Labels(after[best], totals[best], before[best], steps[best])


class _Pairs:
    """How many pairs may still be compared."""

    def __init__(self, left: float) -> None:
        self.left = left

    def spend(self, count: int) -> None:
        """Raise TooManyPathsError if that is too many."""
        self.left -= count
        if self.left < 0:
            raise TooManyPathsError


def _best(rows: Numbers, pairs: _Pairs) -> Numbers:
    """The positions of rows that no other row is at least as good as in all columns; of equal ones, one."""
    order = np.lexsort(rows.T[::-1])
    found: list[int] = []
    kept = rows[:0]
    for start in range(0, len(order), AT_ONCE):
        part = order[start : start + AT_ONCE]
        pairs.spend(len(part) * (len(kept) + len(part)))
        values = rows[part]
        earlier = np.tri(len(part), k=-1, dtype=bool)
        worse = np.logical_or(_worse(values, kept), _worse(values, values, earlier))
        part = part[~worse]
        found += part.tolist()
        kept = np.concatenate([kept, rows[part]])
    return np.array(found, np.int64)


def _worse(rows: Numbers, others: Numbers, among: NDArray[np.bool_] | bool = True) -> NDArray[np.bool_]:
    """Whether one of others is at least as good as each row in all columns."""
    return np.asarray(np.any(np.all(rows[:, None] >= others[None], axis=2) & among, axis=1))
