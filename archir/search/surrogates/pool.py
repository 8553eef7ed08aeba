"""Where a model is asked: children of the best, and architectures drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from archir.search.ask_tell import Scored
from archir.search.candidate import Candidate
from archir.search.proposals import Proposals
from archir.search.surrogates.encoding import Encoding, Floats, normal
from archir.search.variation import Codes, moved_codes

MOST_OBSERVED = 400
"""What a model is fitted to at most: half of it is the best, the others are the last that were tried."""
ANOTHER = 0.25
"""The probability with which a child differs in one more choice."""

Judge = Callable[[Floats, Floats, Floats], Floats]
"""Of the vectors and numbers that were observed, and the vectors of a pool: how promising each of the pool is."""


class Pool:
    """Proposes what a model finds promising."""

    def __init__(self, proposals: Proposals, parents: int, children: int, drawn: int) -> None:
        self.proposals, self.space, self.rng = proposals, proposals.space, proposals.rng
        self.parents, self.children, self.drawn = parents, children, drawn
        self._encoding = Encoding(self.space.choices)
        self._draws = np.random.default_rng(self.rng.getrandbits(64))

    def promising(self, observed: Sequence[Scored], judge: Judge, count: int, budget: float = 1.0) -> list[Candidate]:
        """At most so many candidates, the most promising ones of the pool."""
        ordered = sorted(observed, key=lambda one: one.values)
        pool = self._pool([one.candidate.architecture.codes for one in ordered[: self.parents]])
        if not pool:
            return []
        if len(ordered) > MOST_OBSERVED:
            best, rest = ordered[: MOST_OBSERVED // 2], ordered[MOST_OBSERVED // 2 :]
            ordered = [*best, *sorted(rest, key=lambda one: -one.candidate.id)[: MOST_OBSERVED // 2]]
        seen = [one.candidate.architecture.codes for one in ordered]
        vectors = self._encoding([*seen, *pool])
        numbers = normal([-one.values[0] for one in ordered])
        promise = judge(vectors[: len(seen)], numbers, vectors[len(seen) :])
        order = np.argsort(-promise, kind="stable").tolist()
        return self.proposals.first((self.space.decode(pool[place]) for place in order), count, budget)

    def _pool(self, parents: Sequence[Codes]) -> list[Codes]:
        """The codes of new architectures within all bounds, each once."""
        met = self.proposals.met
        children = [self._child(parents[i % len(parents)]) for i in range(self.children)] if parents else []
        found = [one for one in dict.fromkeys(children) if one not in met]
        if found and self.space.bounded:
            kept = self.space.keeping(np.array(found, np.int16))
            found = [one for one, keep in zip(found, kept, strict=True) if keep]
        drawn = map(tuple, self.space.sample_codes(self.drawn, self._draws).tolist())
        return list(dict.fromkeys([*found, *(one for one in drawn if one not in met)]))

    def _child(self, parent: Codes) -> Codes:
        child = moved_codes(self.space, parent, self.rng)
        while self.rng.random() < ANOTHER:
            child = moved_codes(self.space, child, self.rng)
        return child
