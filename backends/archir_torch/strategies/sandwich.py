"""The sandwich rule: a step trains the largest architecture, the smallest, and some between (Yu et al. 2020, BigNAS).

With `first`, it is the hierarchical sampling of TrioNet (Pi et al. 2021, section 3.4): what these choices come to is
drawn before, uniformly, and is the same for all architectures of a step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.recipes.open_choices import opened
from archir.recipes.recipe import Phase
from archir.spaces.architecture import Architecture
from archir.spaces.paths import sandwich
from archir.spaces.space import Space
from archir.utils.settings import Amount, Many
from archir.utils.toml import Path
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.supernet import Supernet, SupernetOptions


class SandwichOptions(SupernetOptions):
    """What `sandwich` can be told, too."""

    drawn: Amount = 2
    """Architectures that are drawn uniformly, beside the largest and the smallest."""
    first: Annotated[tuple[str, ...], Many] = ()
    """Choices that are drawn before all others, once for a step: patterns of paths, or tags."""
    size: str = "macs"
    """The cost by which architectures are large or small."""
    distill: float = Field(default=0.0, ge=0, le=1)
    """In-place distillation: this part of the loss of all but the largest is what the largest predicts."""
    decay: Literal["all", "largest"] = "all"
    """Whose weights decay."""


@strategy("sandwich", SandwichOptions, orders=True, gives=("weights", "supernet"))
class Sandwich(Supernet):
    """The largest, the smallest, and some that are drawn."""

    def __init__(self, job: Job, options: SandwichOptions) -> None:
        self.options = options
        self.taught = options.distill
        self.decayed = "first" if options.decay == "largest" else "all"
        super().__init__(job, options)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: SupernetOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Choices and costs that there are not."""
        yield from super().mistakes(phase, space, options)
        if isinstance(options, SandwichOptions):
            for key, check in (
                ("first", partial(opened, space, options.first)),
                ("size", partial(space.account.known, options.size, summed=True)),
            ):
                try:
                    check()
                except ArchError as error:
                    yield from ((("options", key), one) for one in error.diagnostics)

    def prepare(self) -> None:
        """What is drawn before all else."""
        super().prepare()
        self.first = opened(self.space, self.options.first) if self.options.first else set()

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """The largest comes first."""
        return sandwich(self.space, rng, self.options.drawn, self.first, self.options.size)
