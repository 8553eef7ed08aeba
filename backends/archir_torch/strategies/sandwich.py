"""Sandwich rule: a step trains the largest architecture, the smallest one and some random ones (Yu et al.
2020, BigNAS).

With `first`, this is the hierarchical sampling of TrioNet (Pi et al. 2021, section 3.4): the outcomes of the choices
in `first` are sampled uniformly before all others, and shared by all architectures in a step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.recipes import plugins
from archir.recipes.open_choices import matching_paths
from archir.recipes.recipe import Phase
from archir.spaces.architecture import Architecture
from archir.spaces.path_sampling import sandwich
from archir.spaces.space import Space
from archir.utils.settings import Amount, ListAsTuple
from archir.utils.toml import Path
from archir_torch.objectives.create import kind_of
from archir_torch.search.job import Job, strategy
from archir_torch.strategies.supernet import Supernet, SupernetOptions


class SandwichOptions(SupernetOptions):
    """Options of `sandwich`."""

    drawn: Amount = 2
    """Number of uniformly sampled architectures per step, in addition to the largest and the smallest."""
    first: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Choices that are sampled before all others, once per step: path patterns, or tags."""
    uniform: Literal["choices", "architectures"] = "choices"
    """Distribution of the sampled architectures: every choice sampled uniformly in turn (`choices`), or uniform over
    all `architectures`."""
    size: str = "macs"
    """Cost by which the largest and the smallest architecture are determined."""
    distill: float = Field(default=0.0, ge=0, le=1)
    """In-place distillation: weight of the largest architecture's predictions in the loss of all other
    architectures."""
    decay: Literal["all", "largest"] = "all"
    """Weights to which weight decay applies in a step: all, or only those that the step's largest architecture uses."""


@strategy("sandwich", SandwichOptions, orders=True, gives=("weights", "supernet"))
class Sandwich(Supernet):
    """Supernet training by the sandwich rule: the largest architecture, the smallest one and some random ones."""

    def __init__(self, job: Job, options: SandwichOptions) -> None:
        self.options = options
        self.distill_share = options.distill
        self.decay_scope = "first" if options.decay == "largest" else "all"
        super().__init__(job, options)
        if self.distill_share and self.task.objective.predicts is None:  # of a module that a check may not import
            raise ArchError(_predicts_neither(str(job.phase.objective.get("kind"))))

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: SupernetOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Yield errors for options that name choices or costs that do not exist, and for distillation of predictions
        that are neither classes nor labels."""
        yield from super().mistakes(phase, space, options)
        if isinstance(options, SandwichOptions):
            kind = str(phase.objective.get("kind", "classification"))
            if options.distill and plugins.may_call(kind) and kind_of(kind).predicts is None:
                yield ("options", "distill"), _predicts_neither(kind)
            for key, check in (
                ("first", partial(matching_paths, space, options.first)),
                ("size", partial(space.account.check_cost, options.size, summed=True)),
            ):
                try:
                    check()
                except ArchError as error:
                    yield from ((("options", key), diagnostic) for diagnostic in error.diagnostics)

    def prepare(self) -> None:
        """Find the choices that are sampled before all others."""
        super().prepare()
        self.first = matching_paths(self.space, self.options.first) if self.options.first else set()

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """Return the architectures to train in a step, the largest first."""
        return sandwich(self.space, rng, self.options.drawn, self.first, self.options.size, self.options.uniform)


def _predicts_neither(objective: str) -> Diagnostic:
    """Return the error that in-place distillation cannot compare the predictions of an objective."""
    text = f"`distill` compares predicted classes or labels, and `{objective}` predicts neither"
    return Diagnostic("A1109", text, None, "remove `distill`")
