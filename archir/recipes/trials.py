"""What phases that try candidates can be told: what these are scored by, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field

from archir.diagnostics.errors import fail
from archir.diagnostics.work import MOST_THREADS
from archir.plugins.registry import Registry
from archir.search.executors import Executor, executor
from archir.search.near import Within
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.settings import Amount, Count, Many, Positive, Settings


@dataclass(frozen=True)
class Kind:
    """What the options of a scorer are, and how it is made."""

    options: type[Settings]
    make: Callable[[Any, Space, Any], Callable[[Architecture, float], Mapping[str, float]]]
    prefix: str = ""


SCORERS: Registry[str, Kind] = Registry("scorer", "scorers")
"""All of them, by name; a backend registers its own."""

Make = TypeVar("Make", bound=Callable[..., Callable[[Architecture, float], Mapping[str, float]]])


def scorer(name: str, options: type[Settings] = Settings, *, prefix: str = "") -> Callable[[Make], Make]:
    """Register a function that is called in each worker, `make(work, space, options)`, and gives the function that
    scores: of an architecture and the part of the full budget, its scores by name. These have the prefix among the
    figures of epochs."""

    def register(make: Make) -> Make:
        SCORERS.register(name, Kind(options, make, prefix), make)
        return make

    return register


TABLE = "table"
"""The scorer that looks up what `evaluate` names."""


class Scorer(Settings):
    """What a candidate is scored by. Scores are what the phase's objective measures, on the images for validation."""

    kind: str = "inherited"
    """`inherited`: with the weights of `start.weights`, a supernet's. `training`: trained from the start as the phase
    says, for its budget's part of the epochs. `proxies`: untrained. `predictor`: fitted to the trials of
    `start.trials`. `table`: looked up in what `evaluate` names. Or one that somebody registered."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Of a scorer that somebody registered."""
    recalibrate: Amount = 4
    """Batches on which statistics of norms are measured before a network with inherited weights is."""
    images: Count | None = None
    """At most so many images are measured on."""
    proxies: Annotated[tuple[str, ...], Many] = ("naswot",)
    """Names of zero-cost proxies, whose scores have these names."""
    score: str = "accuracy"
    """The score that is predicted."""

    @property
    def prefix(self) -> str:
        """What the names of scores begin with among the figures of epochs, beside those of other images."""
        return self.registered.prefix

    @property
    def registered(self) -> Kind:
        """What was registered under its name. Raises ArchError (A2218)."""
        if self.kind not in SCORERS:
            raise fail("A2218", f"there is no scorer `{self.kind}`", None, SCORERS.hint(self.kind))
        return SCORERS[self.kind]


class TrialOptions(Within):
    """What all strategies that try candidates can be told, beside their own options."""

    scorer: Scorer = Scorer()
    executor: str = "local"
    """Who scores (see `archir.search.executors`): `local`, `processes:4`, `ray`, `ray://HOST:PORT`."""
    limit: Positive | None = None
    """Seconds that the scoring of a candidate may take."""
    retries: Amount = 2
    """How often a candidate is tried again whose worker died."""
    cores: float = Field(default=1.0, ge=0, le=MOST_THREADS)
    """Cores of each worker, which are its threads."""
    gpus: float = Field(default=0.0, ge=0, le=MOST_THREADS)
    """GPUs of each worker, on Ray; it may be a part of one."""

    def workers(self, instead: str | None = None) -> Executor:
        """Who scores, not at work yet; `instead` of who is named. Raises ArchError (A2601, A2602, A2603)."""
        return executor(
            instead or self.executor, limit=self.limit, retries=self.retries, cores=self.cores, gpus=self.gpus
        )
