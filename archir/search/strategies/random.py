"""The baseline: architectures drawn at random."""

from __future__ import annotations

from math import ceil
from typing import Annotated

from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.spaces.space import Space
from archir.utils.settings import Count, Many, Settings


class RandomOptions(Settings):
    """How many are drawn, and how many of them at a time."""

    objectives: Annotated[tuple[str, ...], Many] = ("accuracy:max",)
    trials: Count = 100
    batch: Count = 16


@strategy("random", RandomOptions)
class Random(Search):
    """Uniform over what satisfies all constraints; no two compute the same."""

    def __init__(self, space: Space, options: RandomOptions, seed: int = 0) -> None:
        super().__init__(space, options.objectives, seed, options.trials)
        self.batch = options.batch

    def propose(self) -> list[Candidate]:
        """Further draws."""
        return self.proposals.drawn(self.left(self.batch))

    @property
    def batches(self) -> int:
        """All trials, a batch at a time."""
        return ceil((self.most or 0) / self.batch)
