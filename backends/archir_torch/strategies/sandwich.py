"""Sandwich rule: a step trains the largest architecture, the smallest, and some random ones (Yu et al. 2020, BigNAS).

With `first`, it is the hierarchical sampling of TrioNet (Pi et al. 2021, section 3.4): the outcomes of these choices
are sampled first, uniformly, and shared by all architectures of a step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.recipes.open_choices import matching_paths
from archir.recipes.recipe import Phase
from archir.spaces.architecture import Architecture
from archir.spaces.path_sampling import sandwich
from archir.spaces.space import Space
from archir.utils.settings import Amount, ListAsTuple
from archir.utils.toml import Path
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.supernet import Supernet, SupernetOptions


class SandwichOptions(SupernetOptions):
    """Options of `sandwich`."""

    drawn: Amount = 2
    """Number of architectures sampled uniformly, in addition to the largest and the smallest."""
    first: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Choices that are sampled before all others, once per step: patterns of paths, or tags."""
    size: str = "macs"
    """The cost that defines which architectures are large or small."""
    distill: float = Field(default=0.0, ge=0, le=1)
    """In-place distillation: weight of the largest architecture's predictions in the loss of all others."""
    decay: Literal["all", "largest"] = "all"
    """Which weights decay: all, or only those that the largest architecture uses in the step."""


@strategy("sandwich", SandwichOptions, orders=True, gives=("weights", "supernet"))
class Sandwich(Supernet):
    """Trains the largest architecture, the smallest, and some that are sampled."""

    def __init__(self, job: Job, options: SandwichOptions) -> None:
        self.options = options
        self.distill_share = options.distill
        self.decay_scope = "first" if options.decay == "largest" else "all"
        super().__init__(job, options)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: SupernetOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Yield errors for choices and costs that do not exist."""
        yield from super().mistakes(phase, space, options)
        if isinstance(options, SandwichOptions):
            for key, check in (
                ("first", partial(matching_paths, space, options.first)),
                ("size", partial(space.account.check_cost, options.size, summed=True)),
            ):
                try:
                    check()
                except ArchError as error:
                    yield from ((("options", key), diagnostic) for diagnostic in error.diagnostics)

    def prepare(self) -> None:
        """Find the choices that are sampled first."""
        super().prepare()
        self.first = matching_paths(self.space, self.options.first) if self.options.first else set()

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """Return the architectures of a step, the largest first."""
        return sandwich(self.space, rng, self.options.drawn, self.first, self.options.size)
