"""Strategies guided by a surrogate model: `bayesian` by a Gaussian process, `bananas` by an ensemble of networks."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil

import numpy as np

from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.surrogates import acquisition as judges
from archir.search.surrogates.encoding import Floats
from archir.search.surrogates.pool import CandidatePool
from archir.spaces.space import Space
from archir.utils.settings import Amount, Count, Settings


class GuidedOptions(Settings):
    """Options of `bayesian` and `bananas`: number of trials, and size of the candidate pool."""

    objective: str = "accuracy:max"
    trials: Count = 100
    """Maximum number of candidates."""
    initial: Count = 20
    """Number of random candidates before the first model is fitted."""
    batch: Count = 10
    """Number of candidates between two fits of the model."""
    parents: Count = 10
    """Number of best candidates so far whose children are in the pool."""
    children: Amount = 200
    """Number of architectures in the pool that are children of the best."""
    drawn: Count = 100
    """Number of architectures in the pool that are random."""


class Guided(Search):
    """Model-based search with one objective.

    After an initial random batch, each batch has the architectures of a pool that the acquisition function prefers.
    Models are fitted to the ranks of the scores, so that outliers have no more weight than other values.
    """

    def __init__(self, space: Space, options: GuidedOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed, options.trials)
        self.options = options
        self.pool = CandidatePool(self.proposals, options.parents, options.children, options.drawn)
        self.generator = np.random.default_rng(self.rng.getrandbits(64))

    def propose(self) -> list[Candidate]:
        """Return random candidates first, then the most promising of the pool, filled up with random candidates if the
        pool has too few new ones."""
        options = self.options
        if not self.scored:
            return self.proposals.sample(self.left(options.batch if self._asked_count else options.initial))
        wanted = self.left(options.batch)
        candidates = self.pool.select(self.scored, self.acquisition, wanted)
        return candidates + self.proposals.sample(wanted - len(candidates))

    @abstractmethod
    def acquisition(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """Return the acquisition values [m] of a pool [m, k], given the vectors [n, k] and numbers [n] of the
        observations."""

    @property
    def batches(self) -> int:
        """Maximum number of batches: the initial one, and those proposed by the model."""
        options = self.options
        return 1 + ceil(max(0, (self.max_trials or 0) - options.initial) / options.batch)


@strategy("bayesian", GuidedOptions)
class Bayesian(Guided):
    """Bayesian optimisation: expected improvement of a Gaussian process on encoded choices."""

    def acquisition(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """Return the expected improvements [m]."""
        return judges.expected_improvement(vectors, numbers, pool)


@strategy("bananas", GuidedOptions)
class Bananas(Guided):
    """BANANAS (White et al. 2021): independent Thompson sampling from an ensemble of networks."""

    def acquisition(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """Return samples [m] from the ensemble's predictions."""
        return judges.thompson_samples(vectors, numbers, pool, self.generator)
