"""Creates candidates without duplicates: no two of them compute the same function."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from archir.search.candidate import Candidate
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

BATCH, MAX_BATCH = 64, 1024
"""Number of architectures sampled at once: initially, and at most. It doubles with each batch."""
MAX_REPEATS = 1_000
"""After this many consecutive duplicate samples, the remaining architectures are enumerated instead."""
MAX_HASHED = 20_000
"""Maximum size of a space whose remaining architectures are enumerated; each needs a canonical hash, which takes
milliseconds. In larger spaces, sampling ends instead."""


class Proposals:
    """Creates the candidates of a search without duplicates.

    Of several architectures with the same canonical hash, only the first becomes a candidate.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.rng = random.Random(seed)
        self._generator = np.random.default_rng(self.rng.getrandbits(64))
        self._sampled: deque[tuple[int, ...]] = deque()
        self.seen: dict[tuple[int, ...], Candidate] = {}
        """Maps the codes of each architecture seen to its candidate; equivalent architectures share one."""
        self._by_hash: dict[str, Candidate] = {}
        """Maps canonical hashes to candidates."""
        self._batch = BATCH
        self._remaining: Iterator[Architecture] | None = None
        self._count = 0

    def new(self, architecture: Architecture, budget: float = 1.0) -> Candidate | None:
        """Return a new candidate for an architecture; None if an equivalent architecture was seen before."""
        return None if architecture.codes in self.seen else self._deduplicate(architecture, budget)

    def _deduplicate(self, architecture: Architecture, budget: float) -> Candidate | None:
        """Like `new`, for an architecture whose codes have not been seen before."""
        digest = self.space.canonical(architecture)
        earlier = self._by_hash.get(digest)
        candidate = earlier or self._create(architecture, budget)
        self._by_hash[digest] = self.seen[architecture.codes] = candidate
        return None if earlier else candidate

    def with_budget(self, candidate: Candidate, budget: float) -> Candidate:
        """Create a candidate with the same architecture, a new id, and another training budget."""
        return self._create(candidate.architecture, budget)

    def sample(self, count: int, budget: float = 1.0) -> list[Candidate]:
        """Sample `count` new candidates uniformly from the architectures that satisfy all constraints; fewer if none
        are left."""
        candidates: list[Candidate] = []
        repeats = 0
        while len(candidates) < count and self._remaining is None:
            if repeats >= MAX_REPEATS or len(self.seen) >= self.space.satisfying:
                self._remaining = self._unseen()
                break
            codes = self._sample_codes()
            candidate = None if codes in self.seen else self._deduplicate(self.space.decode(codes), budget)
            candidates += [candidate] if candidate else []
            repeats = 0 if candidate else repeats + 1
        if self._remaining is not None:
            candidates += self.take(self._remaining, count - len(candidates), budget)
        return candidates

    def take(self, architectures: Iterator[Architecture], count: int, budget: float = 1.0) -> list[Candidate]:
        """Create candidates from the next `count` new architectures of an iterator; fewer if it is exhausted first."""
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
        """Call `make` until it has produced `count` new candidates, at most `count * tries` times; return them.

        Architectures that break a cost bound are skipped, and so are those equivalent to an earlier candidate, which
        is then passed to `on_duplicate`.
        """
        return self.varied_codes(lambda: make().codes, count, tries, on_duplicate)

    def varied_codes(
        self,
        make: Callable[[], tuple[int, ...]],
        count: int,
        tries: int,
        on_duplicate: Callable[[Candidate], None] = lambda _: None,
    ) -> list[Candidate]:
        """Like `varied`, but `make` returns the codes of an architecture."""
        candidates: list[Candidate] = []
        seen, bounded = self.seen, self.space.has_cost_bounds
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
        self._count += 1
        return Candidate(self._count - 1, architecture, self.space.canonical, budget)

    def _sample_codes(self) -> tuple[int, ...]:
        """Return the codes of one random architecture, from a batch that is refilled when empty."""
        if not self._sampled:
            self._sampled.extend(map(tuple, self.space.sample_codes(self._batch, self._generator).tolist()))
            self._batch = min(2 * self._batch, MAX_BATCH)
        return self._sampled.popleft()

    def _unseen(self) -> Iterator[Architecture]:
        """Yield the architectures not seen yet in random order; none if the space exceeds MAX_HASHED."""
        architectures: Iterable[Architecture] = self.space.enumerate() if self.space.satisfying <= MAX_HASHED else ()
        unseen = [architecture for architecture in architectures if architecture.codes not in self.seen]
        self.rng.shuffle(unseen)
        return iter(unseen)


class NoDedupSpace(Space):
    """Space without deduplication of equivalent architectures: the canonical hash is the list of outcomes.

    Benchmark tables need this: they have one entry per architecture, and equivalent networks in them were trained and
    timed separately. For other scorers, it would be wasted work to score several equivalent architectures.
    """

    def canonical(self, architecture: Architecture) -> str:
        """Return the outcomes as text, instead of a hash of the computed function."""
        return " ".join(map(str, architecture.codes))


def without_dedup(space: Space) -> Space:
    """Return the space without deduplication; architectures and bounds stay the same."""
    return NoDedupSpace(space.graph)
