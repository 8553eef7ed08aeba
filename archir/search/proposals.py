"""Candidates no two of which compute the same."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from archir.search.candidate import Candidate
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

BATCH, MOST_DRAWN = 64, 1024
"""Architectures that are drawn at a time: at first, and at most."""
REPEATS = 1_000
"""Draws in a row of which none is new, before what is left is listed instead."""
MOST_LEFT = 20_000
"""Architectures of a space that is listed then: each needs a hash, which takes milliseconds. In larger spaces, nothing
more is proposed."""


class Proposals:
    """Makes candidates of architectures of a space; of those with equal canonical hashes, one."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.rng = random.Random(seed)
        self._draws = np.random.default_rng(self.rng.getrandbits(64))
        self._drawn: deque[tuple[int, ...]] = deque()
        self._met: dict[tuple[int, ...], Candidate] = {}
        """By codes, the candidate that computes the same."""
        self._hashed: dict[str, Candidate] = {}
        """Candidates by canonical hash."""
        self._batch = BATCH
        self._left: Iterator[Architecture] | None = None
        self._count = 0

    def new(self, architecture: Architecture, budget: float = 1.0) -> Candidate | None:
        """The candidate of an architecture; None if one that computes the same was there before."""
        return None if architecture.codes in self._met else self._told_apart(architecture, budget)

    def _told_apart(self, architecture: Architecture, budget: float) -> Candidate | None:
        """The same, of one that was not met before."""
        name = self.space.canonical(architecture)
        same = self._hashed.get(name)
        found = self._hashed[name] = self._met[architecture.codes] = same or self._numbered(architecture, budget)
        return None if same else found

    def earlier(self, architecture: Architecture) -> Candidate | None:
        """The candidate that computes the same, of an architecture that was given to `new`."""
        return self._met.get(architecture.codes)

    @property
    def met(self) -> Mapping[tuple[int, ...], Candidate]:
        """By codes that were there before, the candidate that computes the same."""
        return self._met

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
            codes = self._draw()
            one = None if codes in self._met else self._told_apart(self.space.decode(codes), budget)
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
        return self.made(lambda: make().codes, count, tries, met)

    def made(
        self,
        make: Callable[[], tuple[int, ...]],
        count: int,
        tries: int,
        met: Callable[[Candidate], None] = lambda _: None,
    ) -> list[Candidate]:
        """The same, of codes."""
        found: list[Candidate] = []
        known, bounded = self._met, self.space.bounded
        for _ in range(count * tries):
            if len(found) == count:
                break
            codes = make()
            before = known.get(codes)
            if before is None:
                architecture = self.space.decode(codes)
                if bounded and not self.space.within(architecture):
                    continue
                one = self._told_apart(architecture, 1.0)
                if one is not None:
                    found.append(one)
                    continue
                before = known[codes]
            met(before)
        return found

    def _numbered(self, architecture: Architecture, budget: float) -> Candidate:
        self._count += 1
        return Candidate(self._count - 1, architecture, self.space.canonical, budget)

    def _draw(self) -> tuple[int, ...]:
        if not self._drawn:
            self._drawn.extend(map(tuple, self.space.sample_codes(self._batch, self._draws).tolist()))
            self._batch = min(2 * self._batch, MOST_DRAWN)
        return self._drawn.popleft()

    def _rest(self) -> Iterator[Architecture]:
        """What draws no longer find, in a space that can be listed."""
        rest: Iterable[Architecture] = self.space.enumerate() if self.space.satisfying <= MOST_LEFT else ()
        left = [architecture for architecture in rest if architecture.codes not in self._met]
        self.rng.shuffle(left)
        return iter(left)
