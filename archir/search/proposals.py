"""Candidates without duplicates: no two of them compute the same function."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from archir.search.candidate import Candidate
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

BATCH, MAX_BATCH = 64, 1024
"""Number of architectures sampled at a time: of the first batch, and the maximum. Each batch is twice as large as the
one before."""
MAX_REPEATS = 1_000
"""Maximum number of successive samples that are all duplicates; then the remaining architectures are enumerated."""
MAX_ENUMERATED = 20_000
"""Maximum size of a space whose remaining architectures are enumerated: each needs a canonical hash, which takes
milliseconds. In larger spaces, no more candidates are proposed then."""


class Proposals:
    """Creates the candidates of a search; of architectures with equal canonical hashes, only the first becomes a
    candidate."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.rng = random.Random(seed)
        self._generator = np.random.default_rng(self.rng.getrandbits(64))
        self._sampled: deque[tuple[int, ...]] = deque()
        self._by_codes: dict[tuple[int, ...], Candidate] = {}
        """Candidates by the codes of every architecture seen; equivalent architectures share a candidate."""
        self._by_hash: dict[str, Candidate] = {}
        """Candidates by canonical hash."""
        self._batch = BATCH
        self._remaining: Iterator[Architecture] | None = None
        self._count = 0

    def new(self, architecture: Architecture, budget: float = 1.0) -> Candidate | None:
        """Return a new candidate for an architecture; None if an equivalent architecture was seen before."""
        return None if architecture.codes in self._by_codes else self._deduplicate(architecture, budget)

    def _deduplicate(self, architecture: Architecture, budget: float) -> Candidate | None:
        """Return what `new` does, for an architecture whose codes were not seen before."""
        digest = self.space.canonical(architecture)
        earlier = self._by_hash.get(digest)
        candidate = self._by_hash[digest] = self._by_codes[architecture.codes] = earlier or self._create(
            architecture, budget
        )
        return None if earlier else candidate

    def equivalent_of(self, architecture: Architecture) -> Candidate | None:
        """Return the candidate that computes the same as an architecture that was passed to `new` before; else None."""
        return self._by_codes.get(architecture.codes)

    @property
    def seen(self) -> Mapping[tuple[int, ...], Candidate]:
        """Candidates by the codes of every architecture seen; equivalent architectures share a candidate."""
        return self._by_codes

    def with_budget(self, candidate: Candidate, budget: float) -> Candidate:
        """Return a copy of a candidate with a new id and another budget."""
        return self._create(candidate.architecture, budget)

    def sample(self, count: int, budget: float = 1.0) -> list[Candidate]:
        """Sample `count` new candidates, uniformly from the architectures that satisfy all constraints.

        Returns fewer candidates if there are no more.
        """
        candidates: list[Candidate] = []
        repeats = 0
        while len(candidates) < count and self._remaining is None:
            if repeats >= MAX_REPEATS or len(self._by_codes) >= self.space.satisfying:
                self._remaining = self._unseen()
                break
            codes = self._sample_codes()
            candidate = None if codes in self._by_codes else self._deduplicate(self.space.decode(codes), budget)
            candidates += [candidate] if candidate else []
            repeats = 0 if candidate else repeats + 1
        if self._remaining is not None:
            candidates += self.take(self._remaining, count - len(candidates), budget)
        return candidates

    def take(self, architectures: Iterator[Architecture], count: int, budget: float = 1.0) -> list[Candidate]:
        """Return candidates for the next `count` architectures of the iterator that are new; fewer if it ends
        before."""
        candidates: list[Candidate] = []
        while len(candidates) < count and (architecture := next(architectures, None)) is not None:
            candidate = self.new(architecture, budget)
            candidates += [candidate] if candidate else []
        return candidates

    def varied(
        self,
        make: Callable[[], Architecture],
        count: int,
        tries: int,
        on_duplicate: Callable[[Candidate], None] = lambda _: None,
    ) -> list[Candidate]:
        """Call `make` until it has produced `count` new candidates, at most `count * tries` times, and return these.

        Skips architectures that break a bound on costs, or are equivalent to an earlier one; `on_duplicate` is called
        with the earlier candidate.
        """
        return self.varied_codes(lambda: make().codes, count, tries, on_duplicate)

    def varied_codes(
        self,
        make: Callable[[], tuple[int, ...]],
        count: int,
        tries: int,
        on_duplicate: Callable[[Candidate], None] = lambda _: None,
    ) -> list[Candidate]:
        """Return what `varied` does, where `make` returns the codes of an architecture."""
        candidates: list[Candidate] = []
        seen, bounded = self._by_codes, self.space.has_cost_bounds
        for _ in range(count * tries):
            if len(candidates) == count:
                break
            codes = make()
            earlier = seen.get(codes)
            if earlier is None:
                architecture = self.space.decode(codes)
                if bounded and not self.space.within(architecture):
                    continue
                candidate = self._deduplicate(architecture, 1.0)
                if candidate is not None:
                    candidates.append(candidate)
                    continue
                earlier = seen[codes]
            on_duplicate(earlier)
        return candidates

    def _create(self, architecture: Architecture, budget: float) -> Candidate:
        """Create a candidate with the next id."""
        self._count += 1
        return Candidate(self._count - 1, architecture, self.space.canonical, budget)

    def _sample_codes(self) -> tuple[int, ...]:
        """Return the codes of one random architecture; samples a batch if none is left."""
        if not self._sampled:
            self._sampled.extend(map(tuple, self.space.sample_codes(self._batch, self._generator).tolist()))
            self._batch = min(2 * self._batch, MAX_BATCH)
        return self._sampled.popleft()

    def _unseen(self) -> Iterator[Architecture]:
        """Enumerate the architectures not seen yet, in random order; none if the space is too large to be
        enumerated."""
        architectures: Iterable[Architecture] = (
            self.space.enumerate() if self.space.satisfying <= MAX_ENUMERATED else ()
        )
        unseen = [architecture for architecture in architectures if architecture.codes not in self._by_codes]
        self.rng.shuffle(unseen)
        return iter(unseen)
