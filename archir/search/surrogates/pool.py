"""Candidate pool: mutants of the best architectures, and random ones, from which an acquisition function
selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from archir.search.ask_tell import ScoredCandidate
from archir.search.candidate import Candidate
from archir.search.proposals import Proposals
from archir.search.surrogates.encoding import Encoding, Floats, normal_scores
from archir.search.variation import Codes, moved_codes

MAX_OBSERVATIONS = 400
"""Maximum number of observations to which a model is fitted: half of them the best, the others the most recent
of the rest."""
EXTRA_MUTATION = 0.25
"""Probability that a mutant is mutated once more; applied repeatedly."""

Acquisition = Callable[[Floats, Floats, Floats], Floats]
"""Acquisition function: (observed vectors [n, k], their normal scores [n], pool vectors [m, k]) -> acquisition
values [m]."""


class CandidatePool:
    """Selects new candidates by acquisition value from a pool of `children` mutants and `random_count` random
    architectures."""

    def __init__(self, proposals: Proposals, parents: int, children: int, random_count: int) -> None:
        self.proposals, self.space, self.rng = proposals, proposals.space, proposals.rng
        self.parents, self.children, self.random_count = parents, children, random_count
        self._encoding = Encoding(self.space.choices)
        self._generator = np.random.default_rng(self.rng.getrandbits(64))

    def select(
        self, observed: Sequence[ScoredCandidate], acquisition: Acquisition, count: int, budget: float = 1.0
    ) -> list[Candidate]:
        """Return at most `count` new candidates: the architectures of a new pool with the highest acquisition
        values."""
        ordered = sorted(observed, key=lambda entry: entry.values)
        pool = self._pool([entry.candidate.architecture.codes for entry in ordered[: self.parents]])
        if not pool:
            return []
        if len(ordered) > MAX_OBSERVATIONS:
            best, others = ordered[: MAX_OBSERVATIONS // 2], ordered[MAX_OBSERVATIONS // 2 :]
            ordered = [*best, *sorted(others, key=lambda entry: -entry.candidate.id)[: MAX_OBSERVATIONS // 2]]
        observed_codes = [entry.candidate.architecture.codes for entry in ordered]
        vectors = self._encoding([*observed_codes, *pool])
        numbers = normal_scores([-entry.values[0] for entry in ordered])
        values = acquisition(vectors[: len(observed_codes)], numbers, vectors[len(observed_codes) :])
        order = np.argsort(-values, kind="stable").tolist()
        return self.proposals.take((self.space.decode(pool[index]) for index in order), count, budget)

    def _pool(self, parents: Sequence[Codes]) -> list[Codes]:
        """Return the codes of the pool: distinct, not seen before, and within all bounds."""
        seen = self.proposals.seen
        children = [self._child(parents[i % len(parents)]) for i in range(self.children)] if parents else []
        candidates = [codes for codes in dict.fromkeys(children) if codes not in seen]
        if candidates and self.space.has_cost_bounds:
            kept = self.space.bounds_mask(np.array(candidates, np.int16))
            candidates = [codes for codes, keep in zip(candidates, kept, strict=True) if keep]
        samples = map(tuple, self.space.sample_codes(self.random_count, self._generator).tolist())
        return list(dict.fromkeys([*candidates, *(codes for codes in samples if codes not in seen)]))

    def _child(self, parent: Codes) -> Codes:
        """Return the codes of a mutant of `parent`, with one or more choices changed."""
        child = moved_codes(self.space, parent, self.rng)
        while self.rng.random() < EXTRA_MUTATION:
            child = moved_codes(self.space, child, self.rng)
        return child
