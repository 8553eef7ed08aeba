"""A chain of choices as arrays: layers of steps between states, whose paths from end to end are the architectures.

What is optimal under bounds is then a shortest path with resources. The first column of costs is the objective, which
is to be least; each further one is bounded from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from archir.costs.dynamic import Chain, State, Step
from archir.costs.tables import MOST_SUM, Numbers
from archir.diagnostics.errors import fail


@dataclass(frozen=True, eq=False)
class Layer:
    """The steps of a choice, sorted by the state that they leave: `starts[s]` is the first one of state `s`.

    `costs` is [steps, columns], `after` the state that a step leads to, `outcomes` what it chooses (-1: inactive).
    """

    starts: Numbers
    sources: Numbers
    after: Numbers
    costs: Numbers
    outcomes: NDArray[np.int16]

    @cached_property
    def counts(self) -> Numbers:
        """How many steps leave each state."""
        found: Numbers = np.diff(self.starts, append=len(self.sources))
        return found

    def only(self, fine: NDArray[np.bool_]) -> Layer:
        """The layer with some of its steps; states may be left by none."""
        counts = np.bincount(self.sources[fine], minlength=len(self.starts))
        starts = np.cumsum(counts) - counts
        return Layer(starts, self.sources[fine], self.after[fine], self.costs[fine], self.outcomes[fine])


@dataclass(frozen=True, eq=False)
class Network:
    """Layers from one state to one state; `constant` is what every path costs besides."""

    layers: tuple[Layer, ...]
    constant: tuple[int, ...]

    @property
    def columns(self) -> int:
        """The objective, and what is bounded."""
        return len(self.constant)

    @property
    def without_objective(self) -> Network:
        """The same with what is bounded first as its objective."""
        layers = (replace(layer, costs=np.ascontiguousarray(layer.costs[:, 1:])) for layer in self.layers)
        return Network(tuple(layers), self.constant[1:])

    def least(self, weights: Sequence[int]) -> list[Numbers]:
        """For each layer and state, and at the end, the least weighted sum of costs that is still to come: exact."""
        found = [np.zeros(1, np.int64)]
        for layer in reversed(self.layers):
            steps = layer.costs @ np.array(weights, np.int64) + found[-1][layer.after]
            found.append(np.minimum.reduceat(steps, layer.starts))
        return found[::-1]

    def far(self, weights: Sequence[int]) -> list[Numbers]:
        """For each layer and state, the least weighted sum of costs that led to it: exact."""
        found = [np.zeros(1, np.int64)]
        for layer in self.layers:
            steps = layer.costs @ np.array(weights, np.int64) + found[-1][layer.sources]
            least = np.full(int(layer.after.max()) + 1, MOST_SUM)
            np.minimum.at(least, layer.after, steps)
            found.append(least)
        return found

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """The least and the greatest sum of each column, with its constant."""
        found = []
        for column in range(self.columns):
            weights = np.eye(self.columns, dtype=np.int64)[column].tolist()
            low, high = self.least(weights)[0][0], -self.least([-one for one in weights])[0][0]
            found.append((int(low) + self.constant[column], int(high) + self.constant[column]))
        return found

    @cached_property
    def magnitudes(self) -> list[int]:
        """No path, nor a part of it, has a greater magnitude in each column."""
        found = np.zeros(self.columns, object)
        for layer in self.layers:
            found += abs(layer.costs).max(axis=0).astype(object)
        return [int(one) + abs(constant) for one, constant in zip(found, self.constant, strict=True)]


def network(chain: Chain) -> Network | None:
    """The network of a chain; None if no architecture satisfies its conditions. Raises ArchError (A1601, A1602)."""
    levels = _alive(chain.levels)
    if levels and not levels[0]:
        return None
    layers = []
    for level in levels:
        steps = [step for found in level.values() for step in found]
        after = {state: i for i, state in enumerate(dict.fromkeys(step.after for step in steps))}
        counts = np.array([len(found) for found in level.values()], np.int64)
        layers.append(
            Layer(
                np.cumsum(counts) - counts,
                np.repeat(np.arange(len(counts)), counts),
                np.array([after[step.after] for step in steps], np.int64),
                np.array([step.costs for step in steps], np.int64).reshape(len(steps), -1),
                np.array([step.outcome for step in steps], np.int16),
            )
        )
    found = Network(tuple(layers), chain.constant)
    if max(found.magnitudes, default=0) >= MOST_SUM:
        raise fail("A1601", "a cost of this space does not fit into 64 bits")
    return found


def _alive(levels: Sequence[dict[State, list[Step]]]) -> list[dict[State, list[Step]]]:
    """The levels without states and steps that lead nowhere. A chain has only states that its steps lead to, in the
    order in which they do; so has what is left."""
    ends: set[State] = {()}
    kept: list[dict[State, list[Step]]] = []
    for level in reversed(levels):
        left = {state: [step for step in steps if step.after in ends] for state, steps in level.items()}
        kept.append({state: steps for state, steps in left.items() if steps})
        ends = set(kept[-1])
    return kept[::-1]
