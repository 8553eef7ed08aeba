"""Strategies that a model of the scores guides: `bayesian`, by a Gaussian process, and `bananas`, by an ensemble."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil

import numpy as np

from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.surrogates import judges
from archir.search.surrogates.encoding import Floats
from archir.search.surrogates.pool import Pool
from archir.spaces.space import Space
from archir.utils.settings import Amount, Count, Settings


class GuidedOptions(Settings):
    """How many are tried, and where the model is asked."""

    objective: str = "accuracy:max"
    trials: Count = 100
    initial: Count = 20
    """Drawn at first."""
    batch: Count = 10
    """Tried between two fits of the model."""
    parents: Count = 10
    """The best until now, whose children are in the pool."""
    children: Amount = 200
    """Of the pool, children of the best."""
    drawn: Count = 100
    """Of the pool, drawn at random."""


class Guided(Search):
    """One objective. After some that are drawn, the most promising of a pool are tried, batch by batch. Models see
    ranks: what is far off weighs no more than others."""

    def __init__(self, space: Space, options: GuidedOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed, options.trials)
        self.options = options
        self.pool = Pool(self.proposals, options.parents, options.children, options.drawn)
        self.draws = np.random.default_rng(self.rng.getrandbits(64))

    def propose(self) -> list[Candidate]:
        """Draws, and then what is promising; where the pool has nothing new, draws again."""
        options = self.options
        if not self.scored:
            return self.proposals.drawn(self.left(options.batch if self._asked else options.initial))
        wanted = self.left(options.batch)
        found = self.pool.promising(self.scored, self.judge, wanted)
        return found + self.proposals.drawn(wanted - len(found))

    @abstractmethod
    def judge(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """How promising each of a pool is [m], given vectors [n, k] and their numbers [n]."""

    @property
    def batches(self) -> int:
        """What is drawn first, and the batches after it."""
        options = self.options
        return 1 + ceil(max(0, (self.most or 0) - options.initial) / options.batch)


@strategy("bayesian", GuidedOptions)
class Bayesian(Guided):
    """Bayesian optimisation: what is expected to improve most, by a Gaussian process on what is chosen."""

    def judge(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """Expected improvements."""
        return judges.improvement(vectors, numbers, pool)


@strategy("bananas", GuidedOptions)
class Bananas(Guided):
    """BANANAS's loop (White et al. 2021): an ensemble of networks, and independent Thompson sampling."""

    def judge(self, vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
        """Draws of what the ensemble says."""
        return judges.drawn(vectors, numbers, pool, self.draws)
