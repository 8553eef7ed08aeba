"""Candidates no two of which compute the same."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from archir.search.multi.candidate import Candidate
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.space import MOST_LISTED, Space

BATCH, MOST_DRAWN = 64, 1024
"""Architectures that are drawn at a time: at first, and at most."""
REPEATS = 1_000
"""Draws in a row of which none is new, before what is left is listed instead."""


class Proposals:
    """Makes candidates of architectures of a space. The canonical hash, which takes milliseconds, is worked out of
    those alone that were not met before, and whose mark was."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.rng = random.Random(seed)
        self._draws = np.random.default_rng(self.rng.getrandbits(64))
        self._drawn: deque[Architecture] = deque()
        self._met: dict[tuple[int, ...], Candidate] = {}
        """By codes, the candidate that computes the same."""
        self._marked: dict[int | str, list[Candidate]] = {}
        """Of those that compute something else, which have a mark."""
        self._batch = BATCH
        self._left: Iterator[Architecture] | None = None
        self._count = 0

    def new(self, architecture: Architecture, budget: float = 1.0) -> Candidate | None:
        """The candidate of an architecture; None if one that computes the same was there before."""
        if architecture.codes in self._met:
            return None
        alike = self._marked.setdefault(self.space.mark(architecture), [])
        if alike:
            name = self.space.canonical(architecture)
            for one in alike:
                if self.space.canonical(one.architecture) == name:
                    self._met[architecture.codes] = one
                    return None
        found = self._met[architecture.codes] = self._numbered(architecture, budget)
        alike.append(found)
        return found

    def earlier(self, architecture: Architecture) -> Candidate | None:
        """The candidate that computes the same, of an architecture that was given to `new`."""
        return self._met.get(architecture.codes)

    def again(self, candidate: Candidate, budget: float) -> Candidate:
        """An earlier candidate, to be scored with another budget."""
        return self._numbered(candidate.architecture, budget)

    def drawn(self, count: int, budget: float = 1.0) -> list[Candidate]:
        """So many candidates, or as many as are left, uniform over what satisfies all constraints."""
        found: list[Candidate] = []
        repeats = 0
        while len(found) < count and self._left is None:
            if repeats >= REPEATS or len(self._met) >= self.space.satisfying:
                self._left = self._rest()
                break
            one = self.new(self._draw(), budget)
            found += [one] if one else []
            repeats = 0 if one else repeats + 1
        if self._left is not None:
            found += self.first(self._left, count - len(found), budget)
        return found

    def first(self, architectures: Iterator[Architecture], count: int, budget: float = 1.0) -> list[Candidate]:
        """The next so many candidates among architectures."""
        found: list[Candidate] = []
        while len(found) < count and (architecture := next(architectures, None)) is not None:
            one = self.new(architecture, budget)
            found += [one] if one else []
        return found

    def varied(
        self,
        make: Callable[[], Architecture],
        count: int,
        tries: int,
        met: Callable[[Candidate], None] = lambda _: None,
    ) -> list[Candidate]:
        """At most so many candidates among architectures that are made until there are enough, `count * tries` times
        at most; those are refused that break a bound on costs or were there before: `met` is told of the latter."""
        found: list[Candidate] = []
        for _ in range(count * tries):
            if len(found) == count:
                break
            architecture = make()
            one = None
            if architecture.codes not in self._met and self.space.within(architecture):
                one = self.new(architecture)
            if one is not None:
                found.append(one)
            elif (before := self.earlier(architecture)) is not None:
                met(before)
        return found

    def _numbered(self, architecture: Architecture, budget: float) -> Candidate:
        self._count += 1
        return Candidate(self._count - 1, architecture, self.space.canonical, budget)

    def _draw(self) -> Architecture:
        if not self._drawn:
            rows = self.space.sample_codes(self._batch, self._draws).tolist()
            self._drawn.extend(map(self.space.decode, rows))
            self._batch = min(2 * self._batch, MOST_DRAWN)
        return self._drawn.popleft()

    def _rest(self) -> Iterator[Architecture]:
        """What draws no longer find, in a space that can be listed."""
        rest: Iterable[Architecture] = self.space.enumerate() if self.space.satisfying <= MOST_LISTED else ()
        left = [architecture for architecture in rest if architecture.codes not in self._met]
        self.rng.shuffle(left)
        return iter(left)
