"""Single path one-shot (Guo et al. 2020): each step trains one uniformly sampled architecture."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal

from archir.search.near_bounds import CostBounds
from archir.spaces.architecture import Architecture
from archir.spaces.path_sampling import single
from archir.utils.settings import Count
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.supernet import Supernet, SupernetOptions


class SposOptions(CostBounds, SupernetOptions):
    """Options of `spos`."""

    uniform: Literal["choices", "architectures"] = "choices"
    """Distribution of paths: every choice sampled uniformly in turn (`choices`), or uniform over all
    `architectures`."""
    drawn: Count = 1
    """Number of paths per step; their gradients are added up."""


@strategy("spos", SposOptions, orders=True, gives=("weights", "supernet"))
class Spos(Supernet):
    """Supernet training on one random path per step, or on `drawn` paths."""

    def __init__(self, job: Job, options: SposOptions) -> None:
        self.options = options
        super().__init__(job, options)

    def prepare(self) -> None:
        """Restrict the space to the cost bounds in the options."""
        self.bounded_space = self.options.within(self.space)

    def evaluated_paths(self) -> Mapping[str, Architecture]:
        """Return the architectures to evaluate.

        With cost bounds, they are a fixed sample within the bounds; without bounds, the largest and the smallest.
        """
        return {"": self.bounded_space.sample(0)} if self.options.where else super().evaluated_paths()

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """Return the architectures sampled for a step."""
        return single(self.bounded_space, rng, self.options.uniform, self.options.drawn)
