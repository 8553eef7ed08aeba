"""All paths within budgets whose objective is at most a cutoff, found layer by layer.

A partial path is dropped if integer bounds prove that no completion is within the budgets: bounds of each single
column, or of all columns weighted by Lagrange multipliers. Among partial paths that end in the same state and have used
equal amounts of every budget, only those of the smallest objectives are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from archir.costs.optimal.network import Layer, Network
from archir.costs.tables import MAX_SUM, Codes, Numbers
from archir.diagnostics.work import spend_up_to

BLOCK_STEPS = 400_000
"""Number of steps that are tried together."""
STEPS_PER_UNIT = 5
"""Number of steps, times columns, that cost one work unit."""
MIN_DEDUPLICATED = 128
"""Number of partial paths above which dominated ones are searched for and dropped."""
KEPT_FRACTION, DEDUPLICATION_INTERVAL = 0.9, 8
"""Criterion for dropping dominated partial paths less often, and how often it is then done.

If dropping keeps more than KEPT_FRACTION of the partial paths, it is from then on done only in every
DEDUPLICATION_INTERVAL-th layer.
"""


class TooManyPathsError(Exception):
    """More partial paths would have to be kept than allowed, or time is up."""


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths sorted by increasing objective, and their costs [paths, columns] without constants.

    `max_width` is the greatest number of partial paths that were kept at the same time.
    """

    codes: Codes
    totals: Numbers
    max_width: int = 0


@dataclass(frozen=True, eq=False)
class _PartialPaths:
    """Partial paths after a layer: state, costs, slack, preceding partial path, and last step of each.

    The slack is how much the weighted bound may still grow before the path is dropped.
    """

    states: Numbers
    totals: Numbers
    slack: Numbers
    parents: Numbers
    steps: Numbers


def list_paths(
    network: Network,
    budgets: Sequence[int],
    weights: Sequence[int],
    cutoff: int,
    count: int = 1,
    max_width: int = 1_000_000,
    beam: bool = False,
    is_late: Callable[[], bool] = lambda: False,
) -> Paths:
    """Return the paths within `budgets` whose objective, without its constant, is at most `cutoff`.

    A path is omitted only if `count` other paths with equal sums of the bounded columns are at least as good. If there
    are more than `max_width` partial paths, only those with the smallest weighted bounds are kept if `beam` is set;
    otherwise, TooManyPathsError is raised. TooManyPathsError is also raised once `is_late` returns True.
    """
    return _PathSearch(network, budgets, weights, cutoff, count, max_width, beam, is_late).run()


class _PathSearch:
    """State of one search: the layers, reduced to the steps that can be part of a path within the budgets."""

    def __init__(
        self,
        network: Network,
        budgets: Sequence[int],
        weights: Sequence[int],
        cutoff: int,
        count: int,
        max_width: int,
        beam: bool,
        is_late: Callable[[], bool],
    ) -> None:
        """Compute the bounds of completions, and drop steps that are on no path within the weighted budget."""
        self.network, self.count, self.max_width, self.beam, self.is_late = network, count, max_width, beam, is_late
        self.interval = 1
        self.budgets = np.array([cutoff, *budgets], np.int64)
        self.weights = np.array(weights, np.int64)
        self.weighted_budget = sum(
            int(weight) * int(budget) for weight, budget in zip(weights, self.budgets, strict=True)
        )
        self.weighted_to_go = network.cost_to_go(weights)
        self.slack = self.weighted_budget - int(self.weighted_to_go[0][0])
        self.layers, self.growth = [], []
        layer_bounds = zip(
            network.layers, network.cost_so_far(weights), self.weighted_to_go, self.weighted_to_go[1:], strict=False
        )
        for layer, so_far, before, after in layer_bounds:
            growth = layer.costs @ self.weights + after[layer.after] - before[layer.sources]
            feasible = growth + so_far[layer.sources] + before[layer.sources] <= self.weighted_budget
            self.layers.append(layer.select(feasible))
            self.growth.append(growth[feasible])
        self.columns_to_go = column_cost_to_go(self.layers, network.column_count)

    def run(self) -> Paths:
        """Extend the partial paths through all layers, and trace the complete paths back to the start."""
        zero = np.zeros(1, np.int64)
        totals = np.zeros((1, self.network.column_count), np.int64)
        stages = [_PartialPaths(zero, totals, np.full(1, self.slack), zero, zero)]
        for number, layer in enumerate(self.layers):
            stages.append(self._extend(number, layer, stages[-1]))
        order = np.argsort(stages[-1].totals[:, 0], kind="stable")
        codes = np.empty((len(order), len(self.layers)), np.int16)
        position = order
        for number in reversed(range(len(self.layers))):
            row = stages[number + 1]
            codes[:, number] = self.layers[number].outcomes[row.steps[position]]
            position = row.parents[position]
        return Paths(codes, stages[-1].totals[order], max(len(row.states) for row in stages))

    def _extend(self, number: int, layer: Layer, partial: _PartialPaths) -> _PartialPaths:
        """Extend all partial paths by one layer, block by block, and drop dominated ones."""
        step_counts = layer.counts[partial.states]
        (block_starts,) = np.nonzero(np.diff(np.cumsum(step_counts) // BLOCK_STEPS))
        block_ends = [0, *(block_starts + 1).tolist(), len(step_counts)]
        parts = [self._extend_block(number, layer, partial, slice(*pair)) for pair in pairwise(block_ends)]
        columns = zip(
            *((block.states, block.totals, block.slack, block.parents, block.steps) for block in parts), strict=True
        )
        extended = _PartialPaths(*map(np.concatenate, columns))
        if len(extended.states) > MIN_DEDUPLICATED and number % self.interval == 0:
            undominated = self._drop_dominated(extended)
            self.interval = (
                1 if len(undominated.states) < KEPT_FRACTION * len(extended.states) else DEDUPLICATION_INTERVAL
            )
            extended = undominated
        if len(extended.states) > self.max_width:
            if not self.beam:
                raise TooManyPathsError
            extended = _select(extended, np.argpartition(-extended.slack, self.max_width)[: self.max_width])
        return extended

    def _extend_block(self, number: int, layer: Layer, partial: _PartialPaths, block: slice) -> _PartialPaths:
        """Extend one block of the partial paths by all steps of a layer."""
        if self.is_late():
            raise TooManyPathsError
        states = partial.states[block]
        counts = layer.counts[states]
        parents = np.repeat(np.arange(len(states)), counts)
        spend_up_to(len(parents) * (1 + self.network.column_count) / STEPS_PER_UNIT)
        offsets = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        steps = layer.starts[states][parents] + offsets
        slack = partial.slack[block][parents] - self.growth[number][steps]
        feasible = np.flatnonzero(slack >= 0)
        parents, steps, slack = parents[feasible], steps[feasible], slack[feasible]
        totals = partial.totals[block][parents] + layer.costs[steps]
        after = layer.after[steps]
        feasible = np.flatnonzero((totals + self.columns_to_go[number + 1][after] <= self.budgets).all(axis=1))
        return _PartialPaths(
            after[feasible], totals[feasible], slack[feasible], parents[feasible] + block.start, steps[feasible]
        )

    def _drop_dominated(self, partial: _PartialPaths) -> _PartialPaths:
        """Keep the `count` best among partial paths that differ only in the objective."""
        keys = [partial.totals[:, 0], *partial.totals[:, 1:].T, partial.states]
        order = np.lexsort(keys)
        is_same = np.ones(len(order), bool)
        is_same[0] = False
        for key in keys[1:]:
            is_same[1:] &= key[order][1:] == key[order][:-1]
        if not is_same.any():
            return partial
        positions = np.arange(len(order))
        group_start = np.maximum.accumulate(np.where(is_same, 0, positions))
        return _select(partial, order[positions - group_start < self.count])


def _select(partial: _PartialPaths, indices: NDArray[np.intp]) -> _PartialPaths:
    """Return the partial paths with these indices."""
    return _PartialPaths(
        partial.states[indices],
        partial.totals[indices],
        partial.slack[indices],
        partial.parents[indices],
        partial.steps[indices],
    )


def column_cost_to_go(layers: Sequence[Layer], columns: int) -> list[Numbers]:
    """Return, for each layer and the end, each column's minimum cost from a state to the end [states, columns]."""
    costs_to_end = [np.zeros((1, columns), np.int64)]
    for layer in reversed(layers):
        minima = np.full((len(layer.starts), columns), MAX_SUM)
        np.minimum.at(minima, layer.sources, layer.costs + costs_to_end[-1][layer.after])
        costs_to_end.append(np.minimum(minima, MAX_SUM))
    return costs_to_end[::-1]
