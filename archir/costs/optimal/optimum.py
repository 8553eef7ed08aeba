"""The least objective within rooms, with a proof; that there is none; or, out of time or work, how far from it one is.

Multipliers prove a first bound. All paths up to a little above it are listed; if there is none, that is the next bound,
and a little becomes more. So what is found is the optimum, and the proof is that everything below it was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from archir.costs.optimal.multipliers import Proof, multipliers
from archir.costs.optimal.network import Network
from archir.costs.optimal.paths import Paths, TooManyPathsError, paths
from archir.costs.tables import Codes, Numbers
from archir.diagnostics.work import current

BEAM = 300
"""Beginnings that are followed where all are too many."""
PARTS = 100_000
"""The first step is such a part of the objective's range."""
GROWTH, FASTEST = 3, 4
"""How many times as many beginnings a next step follows, about, and what it is at most multiplied with."""
MOST = 1_000_000
"""Beginnings that are followed at once."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best architectures in order, and what they cost [rows, columns]; no other one's objective is less than
    `bound`. `settled` says whether that is proved; if so and there is none, nothing is within the bounds. `proof` has
    the multipliers with which paths were listed.
    """

    codes: Codes
    totals: Numbers
    bound: int
    settled: bool
    proof: Proof

    @property
    def value(self) -> int | None:
        """The least objective that was found."""
        return int(self.totals[0, 0]) if len(self.totals) else None


def optimum(
    network: Network,
    limits: Sequence[int],
    best: int = 1,
    late: Callable[[], bool] = lambda: False,
    enough: int | None = None,
) -> Optimum:
    """The `best` architectures of the least objectives whose other columns are at most `limits`.

    With `enough`, one whose objective is at most that is as good as the best.
    """
    columns = zip(limits, network.constant[1:], network.ends[1:], strict=True)
    rooms = [max(min(limit, high), low - 1) - constant for limit, constant, (low, high) in columns]
    return _Search(network, rooms, best, late, enough).result()


class _Search:
    def __init__(
        self, network: Network, rooms: Sequence[int], best: int, late: Callable[[], bool], enough: int | None
    ) -> None:
        self.network, self.rooms, self.best = network, rooms, best
        self.late: Callable[[], bool] = lambda: late() or current().left <= 0
        self.constant = network.constant[0]
        self.end = network.ends[0][1] - self.constant
        self.beyond = self.end + 1
        """The bound where nothing is within the rooms."""
        self.enough = None if enough is None else enough - self.constant
        self.proof = multipliers(network, rooms)
        self.known = Paths(np.empty((0, len(network.layers)), np.int16), np.empty((0, network.columns), np.int64))

    def result(self) -> Optimum:
        low = first = self.proof.least
        if low > self.end or any(low > room for low, room in zip(self._lows(), self.rooms, strict=True)):
            return self._optimum(self.beyond, True)
        cutoff, doubted = low + max((self.end - low) // PARTS, 0), False
        while True:
            try:
                found = self._paths(min(cutoff, self.end))
            except TooManyPathsError:
                if not doubted and not self.late():
                    doubted = True
                    if self._impossible():
                        return self._optimum(self.beyond, True)
                if cutoff == low or self.late():
                    self._look()
                    return self._optimum(low, False)
                cutoff = (low + cutoff) // 2
                continue
            self.known = found
            if len(found.codes) >= self.best or cutoff >= self.end or self._enough():
                bound = int(found.totals[0, 0]) if len(found.codes) else self.beyond
                return self._optimum(bound, True)
            low = cutoff + 1
            cutoff = first + _farther(low - first, found.followed)

    def _look(self) -> None:
        """What is found among few."""
        found = paths(self.network, self.rooms, self.proof.weights, self.end, self.best, BEAM, True)
        if len(found.codes) > len(self.known.codes):
            self.known = found

    def _impossible(self) -> bool:
        """Whether it is proved that nothing is within the rooms: the least of the first of what is bounded, where the
        others are kept, is beyond its own bound. That needs no objective, along which too many paths were alike."""
        if not self.rooms:
            return False
        first, *others = (room + constant for room, constant in zip(self.rooms, self.network.constant[1:], strict=True))
        found = optimum(self.network.without_objective, others, 1, self.late, enough=first)
        return found.settled and (found.value is None or found.value > first)

    def _lows(self) -> list[int]:
        return [low - c for (low, _), c in zip(self.network.ends[1:], self.network.constant[1:], strict=True)]

    def _enough(self) -> bool:
        return self.enough is not None and len(self.known.codes) > 0 and int(self.known.totals[0, 0]) <= self.enough

    def _paths(self, cutoff: int) -> Paths:
        return paths(self.network, self.rooms, self.proof.weights, cutoff, self.best, MOST, late=self.late)

    def _optimum(self, bound: int, settled: bool) -> Optimum:
        constants = np.array(self.network.constant, np.int64)
        known = Paths(self.known.codes[: self.best], self.known.totals[: self.best] + constants)
        return Optimum(known.codes, known.totals, bound + self.constant, settled, self.proof)


def _farther(step: int, followed: int) -> int:
    """The next step, after one of so many beginnings: they grow about as the exponential of its root."""
    grown = log(max(followed, 2))
    return int(step * min(((grown + log(GROWTH)) / grown) ** 2, FASTEST)) + 1
