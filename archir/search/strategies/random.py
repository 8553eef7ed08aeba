"""Random search, the baseline."""

from __future__ import annotations

from math import ceil
from typing import Annotated

from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.spaces.space import Space
from archir.utils.settings import Count, ListAsTuple, Settings


class RandomOptions(Settings):
    """Options of `random`."""

    objectives: Annotated[tuple[str, ...], ListAsTuple] = ("accuracy:max",)
    trials: Count = 100
    """Maximum number of candidates."""
    batch: Count = 16
    """Number of candidates in a batch."""


@strategy("random", RandomOptions)
class Random(Search):
    """Random search: samples uniformly, without duplicates, from the architectures that satisfy all constraints."""

    learns = False

    def __init__(self, space: Space, options: RandomOptions, seed: int = 0) -> None:
        super().__init__(space, options.objectives, seed, options.trials)
        self.batch = options.batch

    def propose(self) -> list[Candidate]:
        """Return the next random candidates."""
        return self.proposals.sample(self.left(self.batch))

    @property
    def batches(self) -> int:
        """Maximum number of batches."""
        return ceil((self.max_trials or 0) / self.batch)
