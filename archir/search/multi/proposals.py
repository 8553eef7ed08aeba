"""Candidates no two of which compute the same."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from archir.search.multi.candidate import Candidate
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.likeness.forms import Form
from archir.search.spaces.likeness.likeness import Mark
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
        self._drawn: deque[tuple[int, ...]] = deque()
        self._met: dict[tuple[int, ...], Candidate] = {}
        """By codes, the candidate that computes the same."""
        self._marked: dict[Mark, Candidate | _Alike] = {}
        """By mark, the only candidate that has it, or all of them."""
        self._batch = BATCH
        self._left: Iterator[Architecture] | None = None
        self._count = 0

    def new(self, architecture: Architecture, budget: float = 1.0) -> Candidate | None:
        """The candidate of an architecture; None if one that computes the same was there before."""
        return None if architecture.codes in self._met else self._told_apart(architecture, budget)

    def _told_apart(self, architecture: Architecture, budget: float) -> Candidate | None:
        """The same, of one that was not met before."""
        mark = self.space.likeness.mark(architecture)
        alike = self._marked.get(mark)
        if alike is None:
            found, same = self._numbered(architecture, budget), False
            self._marked[mark] = found
        else:
            if isinstance(alike, Candidate):
                alike = self._marked[mark] = _Alike(self.space, alike)
            found, same = alike.told_apart(architecture, lambda: self._numbered(architecture, budget))
        self._met[architecture.codes] = found
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
        rest: Iterable[Architecture] = self.space.enumerate() if self.space.satisfying <= MOST_LISTED else ()
        left = [architecture for architecture in rest if architecture.codes not in self._met]
        self.rng.shuffle(left)
        return iter(left)


class _Alike:
    """Candidates that have a mark in common, none of which computes the same as another."""

    def __init__(self, space: Space, first: Candidate) -> None:
        self._space, self._likeness = space, space.likeness
        self._valued: dict[int | str, list[Candidate]] = {}
        self._settled: dict[tuple[int, ...], Candidate] = {}
        self._formed: dict[Form | str, Candidate] = {}
        self._first: Candidate | None = first
        self._settled[self._likeness.settled(first.architecture)] = first

    def told_apart(self, architecture: Architecture, number: Callable[[], Candidate]) -> tuple[Candidate, bool]:
        """The one that computes the same as an architecture, or its own, which gets its number then; whether there was
        one."""
        settled = self._likeness.settled(architecture)
        found = self._settled.get(settled)
        if found is not None:
            return found, True
        if self._first is not None:  # of which no value was needed until now
            self._valued[self._likeness.value(self._first.architecture)] = [self._first]
            self._first = None
        valued = self._valued.setdefault(self._likeness.value(architecture), [])
        found = self._compared(architecture, valued) if valued else None
        same = found is not None
        if found is None:
            found = number()
            valued.append(found)
        self._settled[settled] = found
        return found, same

    def _compared(self, architecture: Architecture, valued: Sequence[Candidate]) -> Candidate | None:
        form = self._likeness.form(architecture)
        if form not in self._formed:
            self._formed.update({self._likeness.form(one.architecture): one for one in valued})
        if form not in self._formed:
            name = self._space.canonical(architecture)
            same = next((one for one in valued if self._space.canonical(one.architecture) == name), None)
            if same is None:
                return None
            self._formed[form] = same
        return self._formed[form]
