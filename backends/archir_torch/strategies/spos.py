"""Single path one-shot: each step trains one architecture, drawn uniformly (Guo et al. 2020)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal

from archir.search.near import Within
from archir.spaces.architecture import Architecture
from archir.spaces.paths import single
from archir.utils.settings import Count
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.supernet import Supernet, SupernetOptions


class SposOptions(Within, SupernetOptions):
    """What `spos` can be told, too."""

    uniform: Literal["choices", "architectures"] = "choices"
    """What is uniform: each choice, from the first to the last, or all architectures together."""
    drawn: Count = 1
    """Paths of a step, whose gradients are added up."""


@strategy("spos", SposOptions, orders=True, gives=("weights", "supernet"))
class Spos(Supernet):
    """One path a step."""

    def __init__(self, job: Job, options: SposOptions) -> None:
        self.options = options
        super().__init__(job, options)

    def prepare(self) -> None:
        """What paths are drawn from."""
        self.within = self.options.within(self.space)

    def looked_at(self) -> Mapping[str, Architecture]:
        """Within bounds, one that is always the same."""
        return {"": self.within.sample(0)} if self.options.where else super().looked_at()

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """One or some, uniform."""
        return single(self.within, rng, self.options.uniform, self.options.drawn)
