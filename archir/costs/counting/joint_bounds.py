"""Number of architectures within several bounds at the same time, and uniform sampling from them.

The residual budget of a bound is the amount that a partial architecture has not used yet; it is tracked along the chain
of choices. A forward pass finds the residual budgets that occur before each stage. A backward pass counts the
continuations that each residual budget allows. Residual budgets that allow every continuation are merged into one, and
those that allow none are dropped. If there are too many residual budgets, they are rounded, either all up or all down:
the count is then too large or too small, and samples may violate a bound by the rounding error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from archir.costs.chain import State
from archir.costs.counting.stages import MergedStep, Stages
from archir.costs.counting.totals import Counts, carry, limbs_for, to_floats, to_int, widen
from archir.costs.extremes import witnesses as bounds
from archir.costs.tables import Numbers
from archir.utils.distributions import Distribution

MAX_CELLS = 2**24
"""Maximum number of grid cells for which a lookup array is allocated; for larger grids, cell indices are sorted."""
MAX_INDEX = 2**62
"""Maximum number of grid cells, so that cell indices fit in 64 bits."""


@dataclass(frozen=True)
class ResidualGrid:
    """Grid of residual budgets with one axis per bound, from `least` to `greatest` in steps of `units`.

    Budgets between grid points are rounded up if `up` is set, otherwise down.
    """

    least: Sequence[int]
    greatest: Sequence[int]
    units: Sequence[int]
    up: bool

    @cached_property
    def sizes(self) -> list[int]:
        """Number of grid points along each axis; the last point is `greatest`, even if it is not a multiple of the
        unit."""
        axes = zip(self.least, self.greatest, self.units, strict=True)
        return [-((least - greatest) // unit) + 1 for least, greatest, unit in axes]

    @property
    def is_small(self) -> bool:
        """Whether the grid is small enough for a lookup array."""
        return prod(self.sizes) <= MAX_CELLS

    @property
    def has_indices(self) -> bool:
        """Whether the indices of all cells fit in 64 bits."""
        return prod(self.sizes) <= MAX_INDEX

    def cell_indices(self, residuals: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
        """Return the positions of those residual budgets that allow a continuation, and their cell indices."""
        enough = [offset >= least for offset, least in zip(residuals, self.least, strict=True)]
        (feasible,) = np.nonzero(np.logical_and.reduce(enough))
        indices = np.zeros(len(feasible), np.int64)
        for i, size in enumerate(self.sizes):
            offset = np.minimum(residuals[i][feasible], self.greatest[i]) - self.least[i]
            if self.units[i] > 1:
                is_last = offset == self.greatest[i] - self.least[i]
                offset = np.where(is_last, size - 1, (offset + (self.units[i] - 1 if self.up else 0)) // self.units[i])
            indices = indices * size + offset
        return feasible, indices

    def residuals(self, numbers: Numbers) -> list[Numbers]:
        """Return the residual budgets at these cell indices, as one array per bound."""
        residuals: list[Numbers] = []
        for i, size in reversed(list(enumerate(self.sizes))):
            numbers, point = np.divmod(numbers, size)
            residuals.append(np.minimum(self.least[i] + point * self.units[i], self.greatest[i]))
        return residuals[::-1]

    def distinct(self, parts: Sequence[Numbers]) -> Numbers:
        """Return the distinct cell indices among all parts, in ascending order."""
        if not self.is_small:
            numbers = np.sort(np.concatenate(parts))
            return numbers[np.diff(numbers, prepend=-1) > 0]
        present = np.zeros(prod(self.sizes), bool)
        for part in parts:
            present[part] = True
        return np.flatnonzero(present)


MAX_SORTED = 2**20
"""Maximum number of residual budgets whose cell indices are sorted.

If there are more, they are rounded to a small grid.
"""
SAMPLE_BLOCK = 20_000
"""Number of architectures that are sampled together."""


RARE_BITS = 44
"""Number b of bits: a fraction 2^-b of the samples is drawn from continuations too rare for floating-point sums."""

Weights: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Numbers of continuations in floating point: mantissas, and exponents of 2."""


class Limit(NamedTuple):
    """Bound on a cost: `sign` times the cost with index `cost` is at most `maximum`."""

    cost: int
    sign: int
    maximum: int


class ScaledStep(NamedTuple):
    """Merged step whose costs are expressed in the units of the residual budgets, one for each bound."""

    costs: tuple[int, ...]
    after: State
    merged: MergedStep


class StateResiduals(NamedTuple):
    """Residual budgets in one state before a stage: their grid, and the sorted indices of the occupied cells."""

    grid: ResidualGrid
    cells: Numbers

    def find(self, residuals: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
        """Return the positions of the residual budgets that allow a continuation, and the index of each in `cells`."""
        feasible, indices = self.grid.cell_indices(residuals)
        return feasible, np.searchsorted(self.cells, indices)


class ResidualBudgets:
    """Residual budgets of a chain under bounds: counting and sampling of the architectures within all bounds.

    If there are more than `entries` residual budgets before a stage, they are rounded: up if `up` is set, otherwise
    down.
    """

    def __init__(self, stages: Stages, limits: Sequence[Limit], entries: int, up: bool) -> None:
        """Express costs relative to each stage's minimum, in a common unit, and compute all residual budgets."""
        self.stages, self.entries, self.up = stages, entries, up
        self.rounded = False
        constant = stages.chain.constant
        budgets = [limit.maximum - limit.sign * constant[limit.cost] for limit in limits]
        signed_levels = [
            {
                state: [ScaledStep(tuple(l.sign * s.costs[l.cost] for l in limits), s.after, s) for s in steps]
                for state, steps in level.items()
            }
            for level in stages.levels
        ]
        minima = [
            [min(step.costs[i] for step in _all_steps(level)) for level in signed_levels] for i in range(len(limits))
        ]
        units = [
            gcd(
                *(
                    m.costs[i] - minimum
                    for level, minimum in zip(signed_levels, minima[i], strict=True)
                    for m in _all_steps(level)
                )
            )
            or 1
            for i in range(len(limits))
        ]
        self.levels = [
            {
                state: [
                    ScaledStep(tuple((c - minima[i][n]) // units[i] for i, c in enumerate(m.costs)), m.after, m.merged)
                    for m in moves
                ]
                for state, moves in level.items()
            }
            for n, level in enumerate(signed_levels)
        ]
        self.initial = [
            (budget - sum(minimum)) // unit for budget, minimum, unit in zip(budgets, minima, units, strict=True)
        ]
        self.residuals = list(self._residuals_by_stage())

    def _residuals_by_stage(self) -> Iterator[dict[State, StateResiduals]]:
        """Yield the residual budgets by state, before each stage and at the end."""
        bounds_by_sign = [
            [bounds.cost_to_go(self.levels, i, sign) for i in range(len(self.initial))] for sign in (1, -1)
        ]
        arriving: dict[State, list[list[Numbers]]] = {
            (): [[np.array([residual], np.int64) for residual in self.initial]]
        }
        for stage in range(len(self.levels) + 1):
            extremes = {
                state: (
                    [side[stage][state] for side in bounds_by_sign[0]],
                    [-side[stage][state] for side in bounds_by_sign[1]],
                )
                for state in arriving
                if state in bounds_by_sign[0][0][stage]
            }
            state_residuals = self._distinct_residuals({state: arriving[state] for state in extremes}, extremes)
            yield state_residuals
            arriving = {}
            for state, place in state_residuals.items() if stage < len(self.levels) else ():
                residuals = place.grid.residuals(place.cells)
                for step in self.levels[stage][state]:
                    remaining = [residual - cost for residual, cost in zip(residuals, step.costs, strict=True)]
                    arriving.setdefault(step.after, []).append(remaining)

    def _distinct_residuals(
        self, arriving: Mapping[State, list[list[Numbers]]], extremes: Mapping[State, tuple[list[int], list[int]]]
    ) -> dict[State, StateResiduals]:
        """Return the distinct residual budgets of each state.

        Their grid is coarsened until there are few enough residual budgets.
        """
        units = [1] * len(self.initial)
        rows = sum(len(residuals[0]) for parts in arriving.values() for residuals in parts)
        while True:
            while any(
                not grid.has_indices or (rows > MAX_SORTED and not grid.is_small)
                for grid in (ResidualGrid(*pair, units, self.up) for pair in extremes.values())
            ):
                units = self._coarsen(units, extremes)
            result: dict[State, StateResiduals] = {}
            for state, parts in arriving.items():
                grid = ResidualGrid(*extremes[state], units, self.up)
                cells = grid.distinct([grid.cell_indices(residuals)[1] for residuals in parts])
                if len(cells):
                    result[state] = StateResiduals(grid, cells)
            rows = sum(len(place.cells) for place in result.values())
            if rows <= self.entries or max(max(place.grid.sizes) for place in result.values()) <= 2:
                return result
            arriving = {state: [place.grid.residuals(place.cells)] for state, place in result.items()}
            units = self._coarsen(units, extremes)
            rows = MAX_SORTED + 1

    def _coarsen(self, units: list[int], extremes: Mapping[State, tuple[list[int], list[int]]]) -> list[int]:
        """Return the grid's units, doubled for the bound with the largest number of grid points."""
        self.rounded = True
        sizes = np.max([ResidualGrid(*pair, units, self.up).sizes for pair in extremes.values()], axis=0)
        return [unit << int(i == np.argmax(sizes)) for i, unit in enumerate(units)]

    @property
    def count(self) -> int:
        """Number of architectures within the bounds.

        If residual budgets are rounded, the number is too large (with `up`) or too small (otherwise).
        """
        return self._continuations[0]

    @cached_property
    def _continuations(self) -> tuple[int, list[dict[State, Weights]]]:
        """Return the exact number of continuations from the start, and the number from each residual budget.

        The numbers from residual budgets are rounded to 53 bits.
        """
        continuations: dict[State, Counts] = {state: np.ones((1, 1), np.int64) for state in self.residuals[-1]}
        rounded = [{state: to_floats(counts) for state, counts in continuations.items()}]
        totals = dict.fromkeys(continuations, 1)
        for level, places, after in reversed(
            list(zip(self.levels, self.residuals[:-1], self.residuals[1:], strict=True))
        ):
            totals = {
                state: sum(step.merged.path_count * totals[step.after] for step in level[state] if step.after in totals)
                for state in places
            }
            limbs = limbs_for(max(totals.values(), default=0))
            widened_counts = {state: widen(counts, limbs) for state, counts in continuations.items()}
            continuations = {state: np.zeros((len(place.cells), limbs), np.int64) for state, place in places.items()}
            for state, place in places.items():
                residuals = place.grid.residuals(place.cells)
                for step in level[state]:
                    if step.after in after:
                        feasible, index = _advance(residuals, step, after)
                        continuations[state][feasible] += widened_counts[step.after][index] * step.merged.path_count
                carry(continuations[state])
            rounded.append({state: to_floats(counts) for state, counts in continuations.items()})
        return to_int(continuations[()][0]) if continuations else 0, rounded[::-1]

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int16]:
        """Return `n` architectures, sampled uniformly from those within the bounds, as rows of outcomes.

        There must be at least one such architecture. If residual budgets are rounded up, all architectures within the
        bounds can occur, but also some that violate the bounds.
        """
        parts = [self._sample_block(min(SAMPLE_BLOCK, n - start), rng) for start in range(0, n, SAMPLE_BLOCK)]
        return np.concatenate(parts)

    def _sample_block(self, n: int, rng: np.random.Generator) -> NDArray[np.int16]:
        """Sample `n` architectures stage by stage; rows in the same state are processed together."""
        codes = np.empty((n, self.stages.cuts[-1]), np.int16)
        continuations = self._continuations[1]
        groups: dict[State, tuple[Numbers, Numbers]] = {(): (np.arange(n), np.zeros(n, np.int64))}
        for stage, level in enumerate(self.levels):
            columns = slice(self.stages.cuts[stage], self.stages.cuts[stage + 1])
            before, after = self.residuals[stage], self.residuals[stage + 1]
            arriving: dict[State, list[tuple[Numbers, Numbers]]] = {}
            for state, (rows, cells) in groups.items():
                steps = [step for step in level[state] if step.after in after]
                residuals = before[state].grid.residuals(before[state].cells[cells])
                mantissas = np.zeros((len(steps), len(rows)))
                exponents = np.full((len(steps), len(rows)), np.iinfo(np.int32).min // 2)
                indices = np.zeros((len(steps), len(rows)), np.int64)
                for i, step in enumerate(steps):
                    feasible, indices[i, feasible] = _advance(residuals, step, after)
                    mantissa, exponent = continuations[stage + 1][step.after]
                    mantissas[i, feasible] = mantissa[indices[i, feasible]] * step.merged.path_count
                    exponents[i, feasible] = exponent[indices[i, feasible]]
                picks = _sample_rows(mantissas, exponents, rng)
                for i in np.unique(picks):
                    (part,) = np.nonzero(picks == i)
                    outcomes = steps[i].merged.outcomes
                    codes[rows[part], columns] = outcomes[rng.integers(len(outcomes), size=len(part))]
                    arriving.setdefault(steps[i].after, []).append((rows[part], indices[i, part]))
            groups = {
                state: (np.concatenate([rows for rows, _ in parts]), np.concatenate([index for _, index in parts]))
                for state, parts in arriving.items()
            }
        return codes


def _advance(
    residuals: Sequence[Numbers], step: ScaledStep, after: Mapping[State, StateResiduals]
) -> tuple[Numbers, Numbers]:
    """Return the positions of the residual budgets that allow a step, and the positions of the resulting ones."""
    return after[step.after].find([residual - cost for residual, cost in zip(residuals, step.costs, strict=True)])


def _sample_rows(
    mantissas: NDArray[np.float64], exponents: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:  # fmt: skip
    """Return, for each column of a matrix of weights [rows, n], a row index sampled in proportion to the weights.

    Rows whose weight is lost in a floating-point sum are sampled, too, with their exact probability.
    """
    weights = np.ldexp(mantissas, exponents - exponents.max(axis=0))
    sums = np.cumsum(weights, axis=0)
    points = rng.random(weights.shape[1])
    picks: NDArray[np.int64] = (sums <= points * sums[-1]).sum(axis=0)
    for column in np.flatnonzero(points < 2.0**-RARE_BITS):
        lowest = int(exponents[mantissas[:, column] > 0, column].min())
        exact = [
            int(mantissa * 2**53) << int(exponent) - lowest if mantissa else 0
            for mantissa, exponent in zip(mantissas[:, column], exponents[:, column], strict=True)
        ]
        share = sum(exact) >> RARE_BITS  # the weight that points below 2**-RARE represent
        light_weights = [weight if weight * len(exact) < share else 0 for weight in exact]
        candidates = Distribution.of(*light_weights, share - sum(light_weights))
        pick = int(candidates.sample_many(1, rng)[0])
        picks[column] = pick if pick < len(exact) else picks[column]
    return picks


def _all_steps(level: Mapping[State, Sequence[ScaledStep]]) -> Iterator[ScaledStep]:
    """Yield the steps of all states."""
    for steps in level.values():
        yield from steps
