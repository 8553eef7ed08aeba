"""What a strategy is given, what it is, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from archir.base.errors import fail, suggest
from archir.base.settings import Settings, parsed
from archir.ir.graph import Graph
from archir.search.recipes.recipe import Phase
from archir.search.runs import Trial
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.space import Space
from archir_torch.data import Data
from archir_torch.search.supernet_record import SupernetRecord
from archir_torch.training.loop import Trainee

Decided = Callable[[str, Callable[[], Mapping[str, Any]]], Mapping[str, Any]]
"""What was decided under a name when the phase began; else what the function decides now, which is kept."""


def _now(name: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    return decide()


class Trials:
    """The trials of a phase, by id; these are kept nowhere else."""

    def __init__(self) -> None:
        self.known: dict[int, Trial] = {}

    def put(self, trial: Trial) -> None:
        """Keep a trial."""
        self.known[trial.id] = trial


@dataclass(frozen=True)
class Job:
    """A phase and what it works on. What was taken over from earlier phases is None where nothing was."""

    phase: Phase
    space: Space
    data: Data
    seed: int
    device: str = "cpu"
    folder: Path = Path()
    """Where files that the phase names are looked for."""
    alphas: Mapping[str, list[float]] | None = None
    architecture: Mapping[str, Any] | None = None
    weights: Mapping[str, Tensor] | None = None
    supernet: SupernetRecord | None = None
    """What the weights belong to, if they are those of a supernet."""
    trials: Trials = field(default_factory=Trials)
    earlier: Sequence[Trial] = ()
    """What an earlier phase tried."""
    executor: str | None = None
    """Who scores candidates, instead of whom the phase names."""
    decided: Decided = _now


@dataclass(frozen=True)
class Outcome:
    """What a phase came to, as far as it did. `network` is what was trained and could be deployed, with its first
    output alone; `weights` may be more than it has."""

    architecture: Architecture | None = None
    alphas: Mapping[str, list[float]] | None = None
    history: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """By choice, the probabilities of its alternatives at the start and after each epoch."""
    network: Graph | None = None
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    supernet: SupernetRecord | None = None
    """What the weights belong to, if they are those of a supernet."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """What else the phase leaves behind, by names in its folder."""


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
