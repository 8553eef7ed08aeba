"""Jobs and outcomes in torch, what a strategy is, and which there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from archir.base.errors import fail, suggest
from archir.base.settings import Settings, parsed
from archir.search.recipes import job
from archir.search.recipes.recipe import Phase
from archir_torch.data import Data
from archir_torch.training.loop import Trainee

Job = job.Job[Data, Tensor]
Outcome = job.Outcome[Tensor]


class Strategy(Trainee, Protocol):
    """A strategy of a phase. One that does not train has no epochs.

    If there is a method `shown`, TensorBoard shows the numbers by name that it gives after an epoch.
    """

    epochs: int
    steps: int

    def outcome(self) -> Outcome:
        """What it came to."""


@dataclass(frozen=True)
class Kind:
    """A strategy's name, what its options are, and how it is made."""

    options: type[Settings]
    make: Callable[[Job, Any], Strategy]
    divides: bool = False
    """Whether it can divide its weights between processes (`training.sharding`)."""
    whole: bool = False
    """Whether it works on all training images, and not as a search on the halves."""


STRATEGIES: dict[str, Kind] = {}
"""All strategies by name."""


def strategy(
    name: str, options: type[Settings], *, divides: bool = False, whole: bool = False
) -> Callable[[Callable[[Job, Any], Strategy]], Any]:
    """Register a strategy: `make(job, options)` of these options."""

    def register(make: Callable[[Job, Any], Strategy]) -> Any:
        assert name not in STRATEGIES, f"two strategies are named {name}"
        STRATEGIES[name] = Kind(options, make, divides, whole)
        return make

    return register


def made(job: Job) -> Strategy:
    """The strategy of a job. Raises ArchError (A2202, A1109)."""
    kind = kind_of(job.phase)
    if job.phase.training.sharding != "none" and not kind.divides:
        able = ", ".join(f"`{name}`" for name, one in sorted(STRATEGIES.items()) if one.divides)
        text = (
            f"phase `{job.phase.name}`: `{job.phase.strategy}` keeps weights whole; `training.sharding` is for {able}"
        )
        raise fail("A1109", text)
    return kind.make(job, parsed(kind.options, job.phase.options))


def kind_of(phase: Phase) -> Kind:
    """The kind of a phase's strategy. Raises ArchError (A2202)."""
    if phase.strategy not in STRATEGIES:
        hint = suggest(phase.strategy, STRATEGIES) or f"strategies are {', '.join(sorted(STRATEGIES))}"
        raise fail("A2202", f"phase `{phase.name}`: there is no strategy `{phase.strategy}`", None, hint)
    return STRATEGIES[phase.strategy]


def whole(phase: Phase) -> bool:
    """Whether a phase's strategy works on all training images, and not as a search on the halves."""
    return kind_of(phase).whole
