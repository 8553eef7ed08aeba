"""Lagrange multipliers: what a unit of each bounded cost is worth where the objective is least.

For all multipliers of at least 0, the least of objective plus multipliers times what bounds are exceeded by is at most
the optimum. The greatest such number is looked for with floats, on a smooth function below it (a sum of exponentials
over all paths, by the forward-backward algorithm) by Newton's method, colder and colder; multipliers are then rounded,
and what they prove is worked out in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archir.costs.optimal.network import Layer, Network
from archir.costs.tables import MOST_SUM
from archir.diagnostics.work import spend

Floats = NDArray[np.float64]

WARM, COLD, COOLING = 1.0, 3e-4, 0.25
"""The first temperature, the last, and what each is of the one before: parts of what a choice is worth on average."""
NEWTON = 8
"""Steps at a temperature."""
HALVINGS = 12
A_LAYER, PRODUCTS_A_UNIT = 60, 500
"""Units of work of the function's value in a layer, and products of two costs of a step that take one more."""
FARTHEST = 1e7
"""Multipliers, in units in which all costs matter alike."""
FINE = 2**20
"""Parts of the objective's unit that a bound is told to, where numbers allow."""


@dataclass(frozen=True)
class Proof:
    """Weights of all columns, integers of at least 0: no path within the rooms has an objective of less than
    `bound / weights[0]`, its constant left out."""

    weights: tuple[int, ...]
    bound: int

    @property
    def least(self) -> int:
        """No path within the rooms has a lesser objective."""
        return -(-self.bound // self.weights[0])


def prove(network: Network, rooms: Sequence[int], weights: Sequence[int]) -> Proof:
    """What weights prove; `rooms` are what bounds leave, constants left out."""
    room = sum(weight * room for weight, room in zip(weights[1:], rooms, strict=True))
    return Proof(tuple(weights), int(network.least(weights)[0][0]) - room)


def multipliers(network: Network, rooms: Sequence[int]) -> Proof:
    """Weights that prove much."""
    spans = [max(high - low, 1) for low, high in network.ends]
    if not rooms:
        return prove(network, rooms, [1])
    smooth = _Smooth(network, rooms, spans)
    best = _proof(network, rooms, spans, np.zeros(len(rooms)))
    at = np.zeros(len(rooms))
    temperature = WARM
    infeasible = network.ends[0][1] - network.constant[0]
    while temperature > COLD:
        at = smooth.greatest(at, temperature / max(len(network.layers), 1))
        found = _proof(network, rooms, spans, at)
        if found.bound * best.weights[0] > best.bound * found.weights[0]:
            best = found
        if best.least > infeasible:
            break
        temperature *= COOLING
    return best


def _proof(network: Network, rooms: Sequence[int], spans: Sequence[int], at: Floats) -> Proof:
    """Multipliers, in units of the spans, as integers: as fine as 62 bits allow."""
    exact = [float(one) * spans[0] / span for one, span in zip(at, spans[1:], strict=True)]
    sizes = [network.magnitudes[0], *(one * size for one, size in zip(exact, network.magnitudes[1:], strict=True))]
    sizes += [one * abs(room) for one, room in zip(exact, rooms, strict=True)]
    scale = min(FINE, MOST_SUM / 4 / max(sum(sizes), 1))
    weights = [max(int(scale), 1), *(int(one * scale) for one in exact)]
    return prove(network, rooms, _fitting(network, rooms, weights))


def _fitting(network: Network, rooms: Sequence[int], weights: list[int]) -> list[int]:
    """Weights whose sums fit into 64 bits, worked out in integers: lesser multipliers prove less, and still prove."""
    rest = zip(network.magnitudes[1:], rooms, strict=True)
    sizes = [network.magnitudes[0], *(max(size, abs(room)) for size, room in rest)]
    while sum(weight * size for weight, size in zip(weights, sizes, strict=True)) >= MOST_SUM and any(weights[1:]):
        weights = [max(weights[0] // 2, 1), *(weight // 2 for weight in weights[1:])]
    return weights


class _Smooth:
    """The function, in units of the spans: `at` are multipliers times span by span of the objective."""

    def __init__(self, network: Network, rooms: Sequence[int], spans: Sequence[int]) -> None:
        self.layers = network.layers
        self.costs = [layer.costs / np.array(spans, np.float64) for layer in network.layers]
        self.rooms = np.array([room / span for room, span in zip(rooms, spans[1:], strict=True)])

    def greatest(self, at: Floats, temperature: float) -> Floats:
        """Multipliers of at least 0 near the greatest."""
        value, gradient, curvature = self._value(at, temperature)
        for _ in range(NEWTON):
            free = (at > 0) | (gradient > 0)
            if not free.any():
                break
            inner = curvature[np.ix_(free, free)] / temperature
            inner += np.eye(len(inner)) * (1e-9 + 1e-6 * np.trace(inner))
            direction = np.zeros(len(at))
            direction[free] = np.linalg.solve(inner, gradient[free])
            length, gain = 1.0, 0.0
            for _ in range(HALVINGS):
                there = np.clip(at + length * direction, 0, FARTHEST)
                found = self._value(there, temperature)
                gain = found[0] - value
                if gain > 0:
                    break
                length /= 4
            if gain <= 0:
                break
            at, (value, gradient, curvature) = there, found
            if gain < 1e-2 * temperature:
                break
        return at

    def _value(self, at: Floats, temperature: float) -> tuple[float, Floats, Floats]:
        """The value, its gradient, and the covariance of what is chosen, layers taken as independent."""
        weights = np.concatenate([[1.0], at])
        spend(sum(A_LAYER + len(costs) * len(weights) ** 2 / PRODUCTS_A_UNIT for costs in self.costs))
        rest = np.zeros(1)
        chances: list[Floats] = []
        for layer, costs in zip(reversed(self.layers), reversed(self.costs), strict=True):
            steps = costs @ weights + rest[layer.after]
            low = np.minimum.reduceat(steps, layer.starts)
            heights = np.exp((low[layer.sources] - steps) / temperature)
            sums = np.add.reduceat(heights, layer.starts)
            chances.append(heights / sums[layer.sources])
            rest = low - temperature * np.log(sums)
        gradient, curvature = -self.rooms, np.zeros((len(at), len(at)))
        states: Floats = np.ones(1)
        for layer, costs, chance in zip(self.layers, self.costs, reversed(chances), strict=True):
            steps, mean, spread = _moments(layer, costs[:, 1:], chance, states)
            gradient, curvature = gradient + mean, curvature + spread
            states = np.bincount(layer.after, steps).astype(np.float64)
        return float(rest[0] - at @ self.rooms), gradient, curvature


def _moments(layer: Layer, costs: Floats, chance: Floats, states: Floats) -> tuple[Floats, Floats, Floats]:
    """How likely steps are, the mean of what they cost, and its covariance."""
    steps = states[layer.sources] * chance
    mean = steps @ costs
    return steps, mean, (costs * steps[:, None]).T @ costs - np.outer(mean, mean)
