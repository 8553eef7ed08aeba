"""Pareto front of a network's columns by label setting.

A label is a partial path. A label is dropped if another label that ends in the same state is at least as good in every
column, including the bounded ones (label setting for multi-objective shortest paths; Martins 1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archir.costs.optimal.network import Layer, Network
from archir.costs.optimal.paths import TooManyPathsError, column_cost_to_go
from archir.costs.tables import MAX_SUM, Codes, Numbers

MAX_LABELS = 20_000
"""Maximum number of labels that are kept after a layer."""
BLOCK_LABELS = 256
"""Number of labels that are compared together with all labels kept so far."""


@dataclass(frozen=True)
class _Labels:
    """Labels after a layer: each has a state, sums [labels, columns], a preceding label and a last step."""

    states: Numbers
    totals: Numbers
    parents: Numbers
    steps: Numbers


def front(network: Network, axes: int, limits: Sequence[int | None], max_pairs: float) -> tuple[Codes, Numbers]:
    """Return codes and sums [paths, columns] of Pareto-optimal paths within limits, by increasing objective.

    Optimality is in the objective and the first `axes` columns; the other columns only have to be within their limits.
    Raises TooManyPathsError if more than about `max_pairs` pairs of labels would have to be compared.
    """
    budgets = np.array(
        [
            MAX_SUM,
            *(
                MAX_SUM if limit is None else limit - constant
                for limit, constant in zip(limits, network.constant[1:], strict=True)
            ),
        ]
    )
    cost_to_go = column_cost_to_go(network.layers, network.column_count)
    start = np.zeros(1, np.int64)
    pairs = _PairBudget(max_pairs)
    rows = [_Labels(start, np.zeros((1, network.column_count), np.int64), start, start)]
    for number, layer in enumerate(network.layers):
        last = number + 1 == len(network.layers)
        rows.append(
            _extend(layer, rows[-1], budgets, cost_to_go[number + 1], axes + 1 if last else network.column_count, pairs)
        )
    order = np.lexsort(rows[-1].totals.T[::-1])
    codes, positions = np.empty((len(order), len(network.layers)), np.int16), order
    for number in reversed(range(len(network.layers))):
        codes[:, number] = network.layers[number].outcomes[rows[number + 1].steps[positions]]
        positions = rows[number + 1].parents[positions]
    return codes, rows[-1].totals[order] + np.array(network.constant, np.int64)


def _extend(
    layer: Layer, row: _Labels, budgets: Numbers, cost_to_go: Numbers, columns: int, pairs: _PairBudget
) -> _Labels:
    """Extend all labels by one step, and keep the labels that are Pareto-optimal in the first `columns` columns."""
    counts = layer.counts[row.states]
    pairs.spend(int(counts.sum()))
    parents = np.repeat(np.arange(len(counts)), counts)
    steps = layer.starts[row.states][parents] + np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
    totals, states = row.totals[parents] + layer.costs[steps], layer.after[steps]
    feasible = np.flatnonzero((totals + cost_to_go[states] <= budgets).all(axis=1))
    groups = [feasible[states[feasible] == state] for state in np.unique(states[feasible])]
    best = (
        np.concatenate([group[_optimal_rows(totals[group, :columns], pairs)] for group in groups])
        if groups
        else feasible
    )
    if len(best) > MAX_LABELS:
        raise TooManyPathsError
    return _Labels(states[best], totals[best], parents[best], steps[best])


class _PairBudget:
    """Remaining number of pairs of labels that may be compared."""

    def __init__(self, left: float) -> None:
        self.left = left

    def spend(self, count: int) -> None:
        """Subtract a number of pairs. Raises TooManyPathsError if not enough are left."""
        self.left -= count
        if self.left < 0:
            raise TooManyPathsError


def _optimal_rows(rows: Numbers, pairs: _PairBudget) -> Numbers:
    """Return the indices of the Pareto-optimal rows; only one of several equal rows."""
    order = np.lexsort(rows.T[::-1])
    result: list[int] = []
    kept = rows[:0]
    for start in range(0, len(order), BLOCK_LABELS):
        block = order[start : start + BLOCK_LABELS]
        pairs.spend(len(block) * (len(kept) + len(block)))
        values = rows[block]
        earlier = np.tri(len(block), k=-1, dtype=bool)
        dominated = np.logical_or(_is_dominated(values, kept), _is_dominated(values, values, earlier))
        block = block[~dominated]
        result += block.tolist()
        kept = np.concatenate([kept, rows[block]])
    return np.array(result, np.int64)


def _is_dominated(rows: Numbers, others: Numbers, among: NDArray[np.bool_] | bool = True) -> NDArray[np.bool_]:
    """Return, for each row, whether one of the rows in `others` is at least as good in all columns."""
    return np.asarray(np.any(np.all(rows[:, None] >= others[None], axis=2) & among, axis=1))
