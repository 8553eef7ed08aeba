"""Lagrange multipliers: the price of one unit of each bounded cost at the optimum.

For any multipliers of at least 0, the minimum of the objective plus the multipliers times the excess over the bounds is
a lower bound of the optimum. The greatest such bound is searched for in floating point by Newton's method, on a smooth
function below it (a sum of exponentials over all paths, computed by the forward-backward algorithm) at decreasing
temperatures. The multipliers are then rounded, and the bound that they prove is computed in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archir.costs.optimal.network import Layer, Network
from archir.costs.tables import MAX_SUM
from archir.diagnostics.work import spend

Floats = NDArray[np.float64]

START_TEMPERATURE, END_TEMPERATURE, COOLING_FACTOR = 1.0, 3e-4, 0.25
"""First and last temperature, and factor between consecutive ones, in units of one choice's mean range."""
MAX_NEWTON_STEPS = 8
"""Maximum number of Newton steps at one temperature."""
MAX_LINE_SEARCH_STEPS = 12
"""Maximum number of step lengths tried in a line search; each is a quarter of the previous one."""
WORK_PER_LAYER, PRODUCTS_PER_UNIT = 60, 500
"""Work units for evaluating the function in one layer, and number of products that cost one unit more.

A product is that of two costs of one step.
"""
MAX_MULTIPLIER = 1e7
"""Maximum value of a multiplier, in units in which every cost has a range of 1."""
MAX_SCALE = 2**20
"""Maximum number of parts of the objective's unit in which a bound is computed, if sums fit in 64 bits."""


@dataclass(frozen=True)
class DualBound:
    """Lower bound of the objective, proved by integer weights of at least 0 for all columns.

    No path within the budgets has an objective, without its constant, below `bound / weights[0]`.
    """

    weights: tuple[int, ...]
    bound: int

    @property
    def min_objective(self) -> int:
        """Smallest integer objective, without its constant, that the bound allows."""
        return -(-self.bound // self.weights[0])


def dual_bound(network: Network, budgets: Sequence[int], weights: Sequence[int]) -> DualBound:
    """Return the bound that these weights prove.

    `budgets` are the limits of the bounded columns minus their constants.
    """
    weighted = sum(weight * budget for weight, budget in zip(weights[1:], budgets, strict=True))
    return DualBound(tuple(weights), int(network.cost_to_go(weights)[0][0]) - weighted)


def find_multipliers(network: Network, budgets: Sequence[int]) -> DualBound:
    """Return the best lower bound found, with the weights that prove it."""
    spans = [max(high - low, 1) for low, high in network.column_ranges]
    if not budgets:
        return dual_bound(network, budgets, [1])
    smooth = _SmoothedDual(network, budgets, spans)
    best = _rounded_bound(network, budgets, spans, np.zeros(len(budgets)))
    at = np.zeros(len(budgets))
    temperature = START_TEMPERATURE
    max_objective = network.column_ranges[0][1] - network.constant[0]
    while temperature > END_TEMPERATURE:
        at = smooth.maximize(at, temperature / max(len(network.layers), 1))
        candidate = _rounded_bound(network, budgets, spans, at)
        if candidate.bound * best.weights[0] > best.bound * candidate.weights[0]:
            best = candidate
        if best.min_objective > max_objective:
            break
        temperature *= COOLING_FACTOR
    return best


def _rounded_bound(network: Network, budgets: Sequence[int], spans: Sequence[int], at: Floats) -> DualBound:
    """Return the bound for real multipliers (in units of the spans).

    The multipliers are first rounded to integer weights, which are as fine as 62 bits allow.
    """
    scaled = [float(multiplier) * spans[0] / span for multiplier, span in zip(at, spans[1:], strict=True)]
    sizes = [
        network.magnitudes[0],
        *(multiplier * size for multiplier, size in zip(scaled, network.magnitudes[1:], strict=True)),
    ]
    sizes += [multiplier * abs(budget) for multiplier, budget in zip(scaled, budgets, strict=True)]
    scale = min(MAX_SCALE, MAX_SUM / 4 / max(sum(sizes), 1))
    weights = [max(int(scale), 1), *(int(multiplier * scale) for multiplier in scaled)]
    return dual_bound(network, budgets, _shrink_weights(network, budgets, weights))


def _shrink_weights(network: Network, budgets: Sequence[int], weights: list[int]) -> list[int]:
    """Halve the weights until sums of weighted costs fit in 64 bits (checked in integers).

    Smaller weights prove a weaker bound, but still a valid one.
    """
    bounded = zip(network.magnitudes[1:], budgets, strict=True)
    sizes = [network.magnitudes[0], *(max(size, abs(budget)) for size, budget in bounded)]
    while sum(weight * size for weight, size in zip(weights, sizes, strict=True)) >= MAX_SUM and any(weights[1:]):
        weights = [max(weights[0] // 2, 1), *(weight // 2 for weight in weights[1:])]
    return weights


class _SmoothedDual:
    """Smoothed dual function; costs are in units of each column's span (its range over all paths).

    `at` are the multipliers, scaled by the span of their column divided by the span of the objective.
    """

    def __init__(self, network: Network, budgets: Sequence[int], spans: Sequence[int]) -> None:
        self.layers = network.layers
        self.costs = [layer.costs / np.array(spans, np.float64) for layer in network.layers]
        self.budgets = np.array([budget / span for budget, span in zip(budgets, spans[1:], strict=True)])

    def maximize(self, at: Floats, temperature: float) -> Floats:
        """Return multipliers, at least 0, that approximately maximise the function, by Newton's method from `at`."""
        value, gradient, curvature = self._evaluate(at, temperature)
        for _ in range(MAX_NEWTON_STEPS):
            free = (at > 0) | (gradient > 0)
            if not free.any():
                break
            hessian = curvature[np.ix_(free, free)] / temperature
            hessian += np.eye(len(hessian)) * (1e-9 + 1e-6 * np.trace(hessian))
            direction = np.zeros(len(at))
            direction[free] = np.linalg.solve(hessian, gradient[free])
            length, gain = 1.0, 0.0
            for _ in range(MAX_LINE_SEARCH_STEPS):
                candidate = np.clip(at + length * direction, 0, MAX_MULTIPLIER)
                evaluation = self._evaluate(candidate, temperature)
                gain = evaluation[0] - value
                if gain > 0:
                    break
                length /= 4
            if gain <= 0:
                break
            at, (value, gradient, curvature) = candidate, evaluation
            if gain < 1e-2 * temperature:
                break
        return at

    def _evaluate(self, at: Floats, temperature: float) -> tuple[float, Floats, Floats]:
        """Return the value of the function, its gradient, and the covariance of the costs.

        For the covariance, layers are assumed to be independent.
        """
        weights = np.concatenate([[1.0], at])
        spend(sum(WORK_PER_LAYER + len(costs) * len(weights) ** 2 / PRODUCTS_PER_UNIT for costs in self.costs))
        free_energy = np.zeros(1)
        chances: list[Floats] = []
        for layer, costs in zip(reversed(self.layers), reversed(self.costs), strict=True):
            steps = costs @ weights + free_energy[layer.after]
            low = np.minimum.reduceat(steps, layer.starts)
            likelihoods = np.exp((low[layer.sources] - steps) / temperature)
            sums = np.add.reduceat(likelihoods, layer.starts)
            chances.append(likelihoods / sums[layer.sources])
            free_energy = low - temperature * np.log(sums)
        gradient, curvature = -self.budgets, np.zeros((len(at), len(at)))
        states: Floats = np.ones(1)
        for layer, costs, chance in zip(self.layers, self.costs, reversed(chances), strict=True):
            steps, mean, covariance = _moments(layer, costs[:, 1:], chance, states)
            gradient, curvature = gradient + mean, curvature + covariance
            states = np.bincount(layer.after, steps).astype(np.float64)
        return float(free_energy[0] - at @ self.budgets), gradient, curvature


def _moments(layer: Layer, costs: Floats, chance: Floats, states: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the probability of each step in a layer, and the mean and covariance of the steps' costs."""
    steps = states[layer.sources] * chance
    mean = steps @ costs
    return steps, mean, (costs * steps[:, None]).T @ costs - np.outer(mean, mean)
