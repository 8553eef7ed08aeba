"""A chain of choices as arrays: layers of steps between states, whose complete paths are the architectures.

Optimisation under bounds is then a shortest path problem with resource constraints. The first column of the costs is
the objective, which is minimised; every other column is bounded from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from archir.costs.chain import Chain, State, Step
from archir.costs.tables import MAX_SUM, Numbers, too_large_cost


@dataclass(frozen=True, eq=False)
class Layer:
    """The steps of one choice, sorted by the state they leave.

    `starts[s]` is the index of the first step from state `s`. `sources` and `after` are the states before and after
    each step, `costs` has shape [steps, columns], and `outcomes` are the choice's outcomes (-1: inactive).
    """

    starts: Numbers
    sources: Numbers
    after: Numbers
    costs: Numbers
    outcomes: NDArray[np.int16]

    @cached_property
    def counts(self) -> Numbers:
        """Number of steps that leave each state, by state."""
        counts: Numbers = np.diff(self.starts, append=len(self.sources))
        return counts

    def select(self, selected: NDArray[np.bool_]) -> Layer:
        """Return the layer with only the steps where `selected` is True; states may be left without any step."""
        counts = np.bincount(self.sources[selected], minlength=len(self.starts))
        starts = np.cumsum(counts) - counts
        return Layer(
            starts, self.sources[selected], self.after[selected], self.costs[selected], self.outcomes[selected]
        )


@dataclass(frozen=True, eq=False)
class Network:
    """Layers of steps from a single start state to a single end state.

    `constant` is added to the costs of every path.
    """

    layers: tuple[Layer, ...]
    constant: tuple[int, ...]

    @property
    def column_count(self) -> int:
        """Number of columns: the objective and the bounded sums."""
        return len(self.constant)

    @property
    def without_objective(self) -> Network:
        """The network without its first column, the objective; the first bounded column becomes the objective."""
        layers = (replace(layer, costs=np.ascontiguousarray(layer.costs[:, 1:])) for layer in self.layers)
        return Network(tuple(layers), self.constant[1:])

    def cost_to_go(self, weights: Sequence[int]) -> list[Numbers]:
        """Return the exact minimum weighted cost from each state to the end, for each layer and for the end."""
        costs_to_end = [np.zeros(1, np.int64)]
        for layer in reversed(self.layers):
            step_costs = layer.costs @ np.array(weights, np.int64) + costs_to_end[-1][layer.after]
            costs_to_end.append(np.minimum.reduceat(step_costs, layer.starts))
        return costs_to_end[::-1]

    def cost_so_far(self, weights: Sequence[int]) -> list[Numbers]:
        """Return the exact minimum weighted cost from the start to each state, for each layer and for the end."""
        costs_from_start = [np.zeros(1, np.int64)]
        for layer in self.layers:
            step_costs = layer.costs @ np.array(weights, np.int64) + costs_from_start[-1][layer.sources]
            state_costs = np.full(int(layer.after.max()) + 1, MAX_SUM)
            np.minimum.at(state_costs, layer.after, step_costs)
            costs_from_start.append(state_costs)
        return costs_from_start

    @cached_property
    def column_ranges(self) -> list[tuple[int, int]]:
        """Minimum and maximum of each column over all paths, including the column's constant."""
        ranges = []
        for column in range(self.column_count):
            weights = np.eye(self.column_count, dtype=np.int64)[column].tolist()
            low, high = self.cost_to_go(weights)[0][0], -self.cost_to_go([-weight for weight in weights])[0][0]
            ranges.append((int(low) + self.constant[column], int(high) + self.constant[column]))
        return ranges

    @cached_property
    def magnitudes(self) -> list[int]:
        """For each column, an upper bound of the absolute value of its sum over any path or part of a path."""
        sums = np.zeros(self.column_count, object)
        for layer in self.layers:
            sums += abs(layer.costs).max(axis=0).astype(object)
        return [int(magnitude) + abs(constant) for magnitude, constant in zip(sums, self.constant, strict=True)]


def build_network(chain: Chain) -> Network | None:
    """Return the network of a chain; None if no architecture satisfies its conditions. Raises ArchError (A1601,
    A1602)."""
    levels = _without_dead_ends(chain.levels)
    if levels and not levels[0]:
        return None
    layers = []
    for level in levels:
        steps = [step for state_steps in level.values() for step in state_steps]
        state_index = {state: i for i, state in enumerate(dict.fromkeys(step.after for step in steps))}
        counts = np.array([len(state_steps) for state_steps in level.values()], np.int64)
        layers.append(
            Layer(
                np.cumsum(counts) - counts,
                np.repeat(np.arange(len(counts)), counts),
                np.array([state_index[step.after] for step in steps], np.int64),
                np.array([step.costs for step in steps], np.int64).reshape(len(steps), -1),
                np.array([step.outcome for step in steps], np.int16),
            )
        )
    result = Network(tuple(layers), chain.constant)
    if max(result.magnitudes, default=0) >= MAX_SUM:
        raise too_large_cost()
    return result


def _without_dead_ends(levels: Sequence[dict[State, list[Step]]]) -> list[dict[State, list[Step]]]:
    """Return the levels without dead ends, i.e. states that have no steps, and steps to such states.

    As in a chain, the result contains only states that steps reach, in the order in which they are first reached.
    """
    live_states: set[State] = {()}
    result: list[dict[State, list[Step]]] = []
    for level in reversed(levels):
        remaining = {state: [step for step in steps if step.after in live_states] for state, steps in level.items()}
        result.append({state: steps for state, steps in remaining.items() if steps})
        live_states = set(result[-1])
    return result[::-1]
