"""Minimum objective within bounds, with a proof; or a proof that no architecture is within the bounds.

Lagrange multipliers prove a first lower bound. All paths with an objective up to a cutoff slightly above that bound are
listed. If there are none, the cutoff becomes the new lower bound and is raised by a larger step. The best path listed
is therefore optimal, because no path below it was skipped. If time or work runs out, the result is the best path found
so far and a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from archir.costs.optimal.multipliers import DualBound, find_multipliers
from archir.costs.optimal.network import Network
from archir.costs.optimal.paths import Paths, TooManyPathsError, list_paths
from archir.costs.tables import Codes, Numbers
from archir.diagnostics.work import current_budget

BEAM_WIDTH = 300
"""Number of partial paths that a beam search keeps, if there are too many to keep all."""
FIRST_STEP_DIVISOR = 100_000
"""The first cutoff lies above the first lower bound by 1 / FIRST_STEP_DIVISOR of the objective's range."""
PATH_GROWTH, MAX_STEP_GROWTH = 3, 4
"""Desired growth factor of the number of partial paths, and maximum growth factor of the cutoff's step.

The step is the amount by which the cutoff is raised.
"""
MAX_PARTIAL_PATHS = 1_000_000
"""Maximum number of partial paths that are kept at the same time."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best architectures in order, and their costs [rows, columns].

    No other architecture has an objective below `bound`. `is_proved` says whether the result is proved to be optimal;
    if it is True and `codes` is empty, no architecture is within the bounds. `dual_bound` has the multipliers that were
    used to list the paths.
    """

    codes: Codes
    totals: Numbers
    bound: int
    is_proved: bool
    dual_bound: DualBound

    @property
    def value(self) -> int | None:
        """Smallest objective found; None if no architecture was found."""
        return int(self.totals[0, 0]) if len(self.totals) else None


def optimum(
    network: Network,
    limits: Sequence[int],
    count: int = 1,
    is_late: Callable[[], bool] = lambda: False,
    target: int | None = None,
) -> Optimum:
    """Return the `count` architectures of smallest objective whose other columns are at most `limits`.

    The search ends early once it finds an architecture with an objective of at most `target`. `is_late` returns True
    once time is up.
    """
    columns = zip(limits, network.constant[1:], network.column_ranges[1:], strict=True)
    budgets = [max(min(limit, high), low - 1) - constant for limit, constant, (low, high) in columns]
    return _Search(network, budgets, count, is_late, target).result()


class _Search:
    """State of one search; the objective and the budgets do not include the constants."""

    def __init__(
        self, network: Network, budgets: Sequence[int], count: int, is_late: Callable[[], bool], target: int | None
    ) -> None:
        self.network, self.budgets, self.count = network, budgets, count
        self.is_late: Callable[[], bool] = lambda: is_late() or current_budget().left <= 0
        self.constant = network.constant[0]
        self.max_objective = network.column_ranges[0][1] - self.constant
        self.infeasible_bound = self.max_objective + 1
        """Value of the lower bound that stands for "no path is within the budgets"."""
        self.target = None if target is None else target - self.constant
        self.dual_bound = find_multipliers(network, budgets)
        self.best_paths = Paths(
            np.empty((0, len(network.layers)), np.int16), np.empty((0, network.column_count), np.int64)
        )

    def result(self) -> Optimum:
        """Raise the cutoff until enough paths are listed, all paths are covered, or time or work runs out."""
        low = first = self.dual_bound.min_objective
        if low > self.max_objective or any(
            low > budget for low, budget in zip(self._column_minima(), self.budgets, strict=True)
        ):
            return self._make_optimum(self.infeasible_bound, True)
        cutoff, checked_feasibility = low + max((self.max_objective - low) // FIRST_STEP_DIVISOR, 0), False
        while True:
            try:
                listed = self._list_paths(min(cutoff, self.max_objective))
            except TooManyPathsError:
                if not checked_feasibility and not self.is_late():
                    checked_feasibility = True
                    if self._is_infeasible():
                        return self._make_optimum(self.infeasible_bound, True)
                if cutoff == low or self.is_late():
                    self._beam_search()
                    return self._make_optimum(low, False)
                cutoff = (low + cutoff) // 2
                continue
            self.best_paths = listed
            if len(listed.codes) >= self.count or cutoff >= self.max_objective or self._has_reached_target():
                bound = int(listed.totals[0, 0]) if len(listed.codes) else self.infeasible_bound
                return self._make_optimum(bound, True)
            low = cutoff + 1
            cutoff = first + _next_step(low - first, listed.max_width)

    def _beam_search(self) -> None:
        """Run a beam search, and keep its paths if it finds more than are known so far."""
        beam = list_paths(
            self.network, self.budgets, self.dual_bound.weights, self.max_objective, self.count, BEAM_WIDTH, True
        )
        if len(beam.codes) > len(self.best_paths.codes):
            self.best_paths = beam

    def _is_infeasible(self) -> bool:
        """Return whether it can be proved that no path is within the budgets.

        The first bounded column is minimised within the budgets of the other columns. If the minimum exceeds the first
        column's own budget, no path is within all budgets. The original objective is not used in this search, because
        too many paths have nearly the same objective.
        """
        if not self.budgets:
            return False
        first, *others = (
            budget + constant for budget, constant in zip(self.budgets, self.network.constant[1:], strict=True)
        )
        minimum = optimum(self.network.without_objective, others, 1, self.is_late, target=first)
        return minimum.is_proved and (minimum.value is None or minimum.value > first)

    def _column_minima(self) -> list[int]:
        """Return the minimum of each bounded column over all paths, without its constant."""
        return [low - c for (low, _), c in zip(self.network.column_ranges[1:], self.network.constant[1:], strict=True)]

    def _has_reached_target(self) -> bool:
        """Return whether a path with an objective of at most `target` was found."""
        return (
            self.target is not None
            and len(self.best_paths.codes) > 0
            and int(self.best_paths.totals[0, 0]) <= self.target
        )

    def _list_paths(self, cutoff: int) -> Paths:
        """List the paths within the budgets whose objective is at most `cutoff`.

        Raises TooManyPathsError if there are too many partial paths, or if time is up.
        """
        return list_paths(
            self.network,
            self.budgets,
            self.dual_bound.weights,
            cutoff,
            self.count,
            MAX_PARTIAL_PATHS,
            is_late=self.is_late,
        )

    def _make_optimum(self, bound: int, is_proved: bool) -> Optimum:
        """Return the result, with the constants added back."""
        constants = np.array(self.network.constant, np.int64)
        best = Paths(self.best_paths.codes[: self.count], self.best_paths.totals[: self.count] + constants)
        return Optimum(best.codes, best.totals, bound + self.constant, is_proved, self.dual_bound)


def _next_step(step: int, path_count: int) -> int:
    """Return the next step by which to raise the cutoff, given the number of partial paths in the last search.

    The number of partial paths is assumed to grow as the exponential of the square root of the step.
    """
    grown = log(max(path_count, 2))
    return int(step * min(((grown + log(PATH_GROWTH)) / grown) ** 2, MAX_STEP_GROWTH)) + 1
