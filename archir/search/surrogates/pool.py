"""Candidate pool: mutants of the best architectures, and random ones, from which an acquisition function
selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from archir.search.ask_tell import ScoredCandidate
from archir.search.candidate import Candidate
from archir.search.proposals import Proposals
from archir.search.surrogates.encoding import Encoding, Floats, normal_scores
from archir.search.variation import OutcomeCodes, moved_codes
from archir.utils.settings import Amount, Count, Settings

MAX_OBSERVATIONS = 400
"""Maximum number of observations to which a model is fitted: half of them the best, the others the most recent
of the rest."""
EXTRA_MUTATION = 0.25
"""Probability that a mutant is mutated once more; applied repeatedly."""

Acquisition = Callable[[Floats, Floats, Floats], Floats]
"""Acquisition function: (observed vectors [n, k], their normal scores [n], pool vectors [m, k]) -> acquisition
values [m]."""


class PoolOptions(Settings):
    """Options of strategies with a candidate pool."""

    parents: Count = 10
    """Number of best candidates so far whose mutants go into the candidate pool."""
    children: Amount = 200
    """Number of architectures in the candidate pool that are mutants of the best candidates."""
    drawn: Count = 100
    """Number of random architectures in the candidate pool."""


class CandidatePool:
    """Selects new candidates by acquisition value from a pool of mutants and random architectures."""

    def __init__(self, proposals: Proposals, options: PoolOptions) -> None:
        self.proposals, self.space, self.rng, self.options = proposals, proposals.space, proposals.rng, options
        self._encoding = Encoding(self.space.choices)
        self._generator = np.random.default_rng(self.rng.getrandbits(64))

    def select(
        self, observed: Sequence[ScoredCandidate], acquisition: Acquisition, count: int, budget: float = 1.0
    ) -> list[Candidate]:
        """Return at most `count` new candidates: the architectures of a new pool with the highest acquisition
        values."""
        ordered = sorted(observed, key=lambda entry: entry.values)
        pool = self._pool([entry.candidate.architecture.codes for entry in ordered[: self.options.parents]])
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

    def _pool(self, parents: Sequence[OutcomeCodes]) -> list[OutcomeCodes]:
        """Return the codes of the pool: distinct, not seen before, and within all bounds."""
        seen = self.proposals.seen
        children = [self._child(parents[i % len(parents)]) for i in range(self.options.children)] if parents else []
        candidates = [codes for codes in dict.fromkeys(children) if codes not in seen]
        if candidates and self.space.has_cost_bounds:
            kept = self.space.bounds_mask(np.array(candidates, np.int16))
            candidates = [codes for codes, keep in zip(candidates, kept, strict=True) if keep]
        samples = map(tuple, self.space.sample_codes(self.options.drawn, self._generator).tolist())
        return list(dict.fromkeys([*candidates, *(codes for codes in samples if codes not in seen)]))

    def _child(self, parent: OutcomeCodes) -> OutcomeCodes:
        """Return the codes of a mutant of `parent`, with one or more choices changed."""
        child = moved_codes(self.space, parent, self.rng)
        while self.rng.random() < EXTRA_MUTATION:
            child = moved_codes(self.space, child, self.rng)
        return child
