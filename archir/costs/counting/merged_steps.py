"""A chain taken in strides: a few choices at a time, and paths of the same costs to the same state as one.

Most choices matter to few others, so that a handful of them (a block, say) is entered and left in few states. Taken
together they have fewer different costs than outcomes, and what is rounded after each stride is rounded less often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from archir.costs.dynamic import Chain, State
from archir.utils.arrays import NDArray, np

MOST_PATHS = 2048
"""Ways through the choices of one stride, from all states before it."""
MOST_STEPS = 500_000
"""Steps of a chain that is taken in strides."""
STATE = 8
"""Strides that it is worth to go through one state less."""


@dataclass(frozen=True, eq=False)
class Stride:
    """What several choices add to each cost, the state after them, and the outcomes that do so, a row each."""

    costs: tuple[int, ...]
    after: State
    outcomes: NDArray[np.int16]

    @property
    def times(self) -> int:
        """How many ways there are."""
        return len(self.outcomes)


class Strides:
    """The strides of a chain: `levels[i]` has those of every state before the choices `cuts[i]` to `cuts[i + 1]`.

    The chain is cut where that makes the fewest states and strides. Raises ArchError (A1602) where it has too many.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        chain.followed(MOST_STEPS)
        best: dict[int, tuple[int, int]] = {0: (0, 0)}  # for each cut: what it takes up to there, and the cut before
        for start, states in enumerate(chain.levels):
            for end, strides in self._ever_further(start):
                option = best[start][0] + STATE * len(states) + strides, start
                best[end] = min(option, best.get(end, option))
        self.cuts = [len(chain.levels)]
        while self.cuts[-1]:
            self.cuts.append(best[self.cuts[-1]][1])
        self.cuts.reverse()
        self.levels = [self._level(start, end) for start, end in pairwise(self.cuts)]

    def _ever_further(self, start: int) -> Iterator[tuple[int, int]]:
        """How many strides there are over one choice, two, and more, as long as few ways make them."""
        levels = self.chain.levels
        found = Counter((state, state, (0,) * len(self.chain.constant)) for state in levels[start])
        for end in range(start + 1, len(levels) + 1):
            steps = levels[end - 1]
            if end > start + 1 and sum(times * len(steps[path[1]]) for path, times in found.items()) > MOST_PATHS:
                return
            further: Counter[tuple[State, State, tuple[int, ...]]] = Counter()
            for (before, after, costs), times in found.items():
                for step in steps[after]:
                    further[before, step.after, _sum(costs, step.costs)] += times
            found = further
            yield end, len(found)

    def _level(self, start: int, end: int) -> dict[State, list[Stride]]:
        level = {}
        for state in self.chain.levels[start]:
            paths: list[tuple[State, tuple[int, ...], tuple[int, ...]]] = [(state, (0,) * len(self.chain.constant), ())]
            for steps in self.chain.levels[start:end]:
                paths = [
                    (step.after, _sum(costs, step.costs), (*outcomes, step.outcome))
                    for after, costs, outcomes in paths
                    for step in steps[after]
                ]
            ways: dict[tuple[State, tuple[int, ...]], list[tuple[int, ...]]] = {}
            for after, costs, outcomes in paths:
                ways.setdefault((after, costs), []).append(outcomes)
            level[state] = [Stride(costs, after, np.array(rows, np.int16)) for (after, costs), rows in ways.items()]
        return level


def _sum(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([x + y for x, y in zip(one, other, strict=True)])
