"""Candidates no two of which compute the same."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from archir.search.multi.candidate import Candidate
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.likeness.forms import Form
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
        self._marked: dict[int | str, Candidate | _Alike] = {}
        """By mark, the only candidate that has it, or all of them."""
        self._batch = BATCH
        self._left: Iterator[Architecture] | None = None
        self._count = 0

    def new(self, architecture: Architecture, budget: float = 1.0) -> Candidate | None:
        """The candidate of an architecture; None if one that computes the same was there before."""
        if architecture.codes in self._met:
            return None
        mark = self.space.likeness.mark(architecture)
        alike = self._marked.get(mark)
        if alike is None:
            found = self._marked[mark] = self._numbered(architecture, budget)
        else:
            if isinstance(alike, Candidate):
                alike = self._marked[mark] = _Alike(self.space, alike)
            same = alike.same(architecture)
            if same is not None:
                self._met[architecture.codes] = same
                return None
            found = self._numbered(architecture, budget)
            alike.add(found)
        self._met[architecture.codes] = found
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


class _Alike:
    """Candidates that have a mark in common, none of which computes the same as another."""

    def __init__(self, space: Space, first: Candidate) -> None:
        self._space, self._likeness = space, space.likeness
        self._values: dict[tuple[int, ...], int | str] = {}
        self._valued: dict[int | str, list[Candidate]] = {}
        self._settled: dict[tuple[int, ...], Candidate] = {}
        self._formed: dict[Form | str, Candidate] = {}
        self.add(first)

    def add(self, candidate: Candidate) -> None:
        """One more, that computes something else."""
        architecture = candidate.architecture
        self._valued.setdefault(self._value(architecture), []).append(candidate)
        self._settled[self._likeness.settled(architecture)] = candidate

    def same(self, architecture: Architecture) -> Candidate | None:
        """The one that computes the same as an architecture."""
        settled = self._likeness.settled(architecture)
        found = self._settled.get(settled)
        if found is None and (valued := self._valued.get(self._value(architecture))):
            found = self._compared(architecture, valued)
            if found is not None:
                self._settled[settled] = found
        return found

    def _value(self, architecture: Architecture) -> int | str:
        """The value of an architecture, which `same` and `add` ask for one after the other."""
        known = self._values.get(architecture.codes)
        if known is None:
            self._values = {architecture.codes: self._likeness.value(architecture)}
            known = self._values[architecture.codes]
        return known

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
