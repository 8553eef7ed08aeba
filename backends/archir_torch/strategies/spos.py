"""Single path one-shot (Guo et al. 2020): each step trains one architecture, sampled uniformly."""

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
    """What is sampled uniformly: each choice, from the first to the last, or all architectures together."""
    drawn: Count = 1
    """Number of paths per step, whose gradients are added up."""


@strategy("spos", SposOptions, orders=True, gives=("weights", "supernet"))
class Spos(Supernet):
    """Trains one random path per step, or `drawn` of them."""

    def __init__(self, job: Job, options: SposOptions) -> None:
        self.options = options
        super().__init__(job, options)

    def prepare(self) -> None:
        """Restrict the space to the bounds of the options."""
        self.bounded_space = self.options.within(self.space)

    def evaluated_paths(self) -> Mapping[str, Architecture]:
        """With bounds, return a fixed sample within them; otherwise the largest and the smallest architecture."""
        return {"": self.bounded_space.sample(0)} if self.options.where else super().evaluated_paths()

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """Return the sampled architectures of a step."""
        return single(self.bounded_space, rng, self.options.uniform, self.options.drawn)
