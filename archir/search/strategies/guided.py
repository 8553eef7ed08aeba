"""Search guided by a surrogate model: `bayesian` uses a Gaussian process, `bananas` an ensemble of neural
networks."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil

import numpy as np

from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.surrogates import models
from archir.search.surrogates.encoding import Floats
from archir.search.surrogates.pool import CandidatePool, PoolOptions
from archir.spaces.space import Space
from archir.utils.settings import Count


class GuidedOptions(PoolOptions):
    """Options of `bayesian` and `bananas`."""

    objective: str = "accuracy:max"
    trials: Count = 100
    """Maximum number of candidates."""
    initial: Count = 20
    """Number of random candidates that are scored before a model is first fitted."""
    batch: Count = 10
    """Number of candidates per batch; the model is fitted again after each batch."""


class Guided(Search):
    """Model-based search with one objective.

    After an initial random batch, each batch consists of the architectures in a candidate pool with the highest
    acquisition values. Models are fitted to normal scores of the ranks, so that outliers have no extra weight.
    """

    def __init__(self, space: Space, options: GuidedOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed, options.trials)
        self.options = options
        self.pool = CandidatePool(self.proposals, options)
        self.generator = np.random.default_rng(self.rng.getrandbits(64))

    def propose(self) -> list[Candidate]:
        """Return the next batch: random at first, then the best of the candidate pool by acquisition value.

        If the pool has too few new architectures, random ones are added.
        """
        options = self.options
        if not self.scored:
            return self.proposals.sample(self.left(options.batch if self._asked_count else options.initial))
        wanted = self.left(options.batch)
        candidates = self.pool.select(self.scored, self.acquisition, wanted)
        return candidates + self.proposals.sample(wanted - len(candidates))

    @abstractmethod
    def acquisition(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """Return the acquisition values [m] of a pool [m, k], given the observed vectors [n, k] and their normal scores
        [n]."""

    @property
    def batches(self) -> int:
        """Maximum number of batches: the initial one and the model-based ones."""
        options = self.options
        return 1 + ceil(max(0, (self.max_trials or 0) - options.initial) / options.batch)


@strategy("bayesian", GuidedOptions)
class Bayesian(Guided):
    """Bayesian optimisation: expected improvement under a Gaussian process on encoded choices."""

    def acquisition(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """Return the expected improvement [m] of each architecture in the pool."""
        return models.expected_improvement(vectors, numbers, pool)


@strategy("bananas", GuidedOptions)
class Bananas(Guided):
    """BANANAS (White et al. 2021): independent Thompson sampling with an ensemble of neural networks."""

    def acquisition(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """Return one sample [m] from the predictive distribution of each architecture in the pool."""
        return models.thompson_samples(vectors, numbers, pool, self.generator)
