"""Coarsening of a chain into stages of a few choices each.

Paths through a stage that lead to the same state at equal costs are one merged step. Since most choices interact with
few others, a small group of choices (a block, say) has few states before and after it. A stage has fewer distinct costs
than outcomes, and rounding once per stage instead of once per choice gives a smaller error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from archir.costs.chain import Chain, State

MAX_PATHS = 2048
"""Maximum number of paths through the choices of one stage, over all states before it."""
MAX_STEPS = 500_000
"""Maximum number of steps of a chain that can be coarsened into stages."""
STATE_WEIGHT = 8
"""Number of merged steps that counts as much as one additional state when cuts between stages are chosen."""


@dataclass(frozen=True, eq=False)
class MergedStep:
    """Merged step: what a stage adds to each cost, the next state, and the outcomes [paths, choices]."""

    costs: tuple[int, ...]
    after: State
    outcomes: NDArray[np.int16]

    @property
    def path_count(self) -> int:
        """Number of paths merged into this step."""
        return len(self.outcomes)


class Stages:
    """Stages of a chain: `levels[i]` has the merged steps of the choices `cuts[i]` to `cuts[i + 1]`, by state.

    The steps are grouped by the state before these choices. The cuts minimise the weighted number of states and merged
    steps. Raises ArchError (A1602) if the chain has too many steps.
    """

    def __init__(self, chain: Chain) -> None:
        """Choose the cuts by dynamic programming, and merge the paths between them into steps."""
        self.chain = chain
        chain.levels_within(MAX_STEPS)
        best: dict[int, tuple[int, int]] = {0: (0, 0)}  # for each cut: the least weight up to it, and the previous cut
        for start, states in enumerate(chain.levels):
            for end, step_count in self._stage_sizes(start):
                candidate = best[start][0] + STATE_WEIGHT * len(states) + step_count, start
                best[end] = min(candidate, best.get(end, candidate))
        self.cuts = [len(chain.levels)]
        while self.cuts[-1]:
            self.cuts.append(best[self.cuts[-1]][1])
        self.cuts.reverse()
        self.levels = [self._level(start, end) for start, end in pairwise(self.cuts)]

    def _stage_sizes(self, start: int) -> Iterator[tuple[int, int]]:
        """Yield the end and the number of merged steps of each possible stage from `start`, shortest first.

        Stages with more than MAX_PATHS paths are not possible.
        """
        levels = self.chain.levels
        path_counts = Counter((state, state, (0,) * len(self.chain.constant)) for state in levels[start])
        for end in range(start + 1, len(levels) + 1):
            steps = levels[end - 1]
            if end > start + 1 and sum(count * len(steps[path[1]]) for path, count in path_counts.items()) > MAX_PATHS:
                return
            extended: Counter[tuple[State, State, tuple[int, ...]]] = Counter()
            for (before, after, costs), count in path_counts.items():
                for step in steps[after]:
                    extended[before, step.after, _sum(costs, step.costs)] += count
            path_counts = extended
            yield end, len(path_counts)

    def _level(self, start: int, end: int) -> dict[State, list[MergedStep]]:
        """Return the merged steps from each state for the stage from choice `start` to choice `end` (exclusive)."""
        level = {}
        for state in self.chain.levels[start]:
            paths: list[tuple[State, tuple[int, ...], tuple[int, ...]]] = [(state, (0,) * len(self.chain.constant), ())]
            for steps in self.chain.levels[start:end]:
                paths = [
                    (step.after, _sum(costs, step.costs), (*outcomes, step.outcome))
                    for after, costs, outcomes in paths
                    for step in steps[after]
                ]
            merged: dict[tuple[State, tuple[int, ...]], list[tuple[int, ...]]] = {}
            for after, costs, outcomes in paths:
                merged.setdefault((after, costs), []).append(outcomes)
            level[state] = [
                MergedStep(costs, after, np.array(outcome_rows, np.int16))
                for (after, costs), outcome_rows in merged.items()
            ]
        return level


def _sum(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the element-wise sum of two tuples of costs."""
    return tuple([x + y for x, y in zip(left, right, strict=True)])
