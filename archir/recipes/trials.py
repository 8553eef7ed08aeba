"""Settings of phases that try candidates: which scorer scores them, and on which executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field

from archir.diagnostics.errors import fail
from archir.diagnostics.work import MAX_THREADS
from archir.plugins.registry import Registry
from archir.search.executors import Executor, executor
from archir.search.near_bounds import CostBounds
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.settings import Amount, Count, ListAsTuple, Positive, Settings


@dataclass(frozen=True)
class ScorerKind:
    """A registered scorer: the type of its options, its constructor, and the prefix of its scores."""

    options: type[Settings]
    make: Callable[[Any, Space, Any], Callable[[Architecture, float], Mapping[str, float]]]
    prefix: str = ""


SCORERS: Registry[str, ScorerKind] = Registry("scorer", "scorers")
"""All scorers, by name; a backend registers its own."""

Make = TypeVar("Make", bound=Callable[..., Callable[[Architecture, float], Mapping[str, float]]])


def scorer(name: str, options: type[Settings] = Settings, *, prefix: str = "") -> Callable[[Make], Make]:
    """Return a decorator that registers a function `make(work, space, options)` as a scorer.

    `make` is called in each worker. It returns a function from an architecture and a fraction of the full budget to
    scores by name. In the metrics of epochs, their names get the `prefix`.
    """

    def register(make: Make) -> Make:
        """Register `make` under the name."""
        SCORERS.register(name, ScorerKind(options, make, prefix), make)
        return make

    return register


TABLE = "table"
"""Name of the scorer that looks candidates up in the table of `evaluate`."""


class Scorer(Settings):
    """Scorer of candidates. Scores are the measures of the phase's objective on the validation samples."""

    kind: str = "inherited"
    """Kind of scorer:

    `inherited`: weights of the supernet named by `start.weights`. `training`: training from scratch with the phase's
    settings, for the fraction of the epochs given by the budget. `proxies`: zero-cost proxies, without training.
    `predictor`: a model fitted to the trials of `start.trials`. `table`: lookup in the table of `evaluate`. Any other
    name: a scorer that a plugin registered.
    """
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of a scorer that a plugin registered."""
    recalibrate: Amount = 4
    """Number of batches for measuring batch-norm statistics before a network with inherited weights is scored."""
    images: Count | None = None
    """Maximum number of samples to score on."""
    proxies: Annotated[tuple[str, ...], ListAsTuple] = ("naswot",)
    """Names of zero-cost proxies; the scores have the same names."""
    score: str = "accuracy"
    """Score that the predictor predicts."""

    @property
    def prefix(self) -> str:
        """Prefix of the scores' names in the metrics of epochs, which separates them from measures on other samples."""
        return self.registered.prefix

    @property
    def registered(self) -> ScorerKind:
        """Registered scorer of this kind. Raises ArchError (A2218) if there is none."""
        kind = SCORERS.find(self.kind)
        if kind is None:
            raise fail("A2218", f"there is no scorer `{self.kind}`", None, SCORERS.hint(self.kind))
        return kind


class TrialOptions(CostBounds):
    """Options of all strategies that try candidates, in addition to their own."""

    scorer: Scorer = Scorer()
    executor: str = "local"
    """Executor that scores candidates (see `archir.search.executors`): `local`, `processes:4`, `ray`,
    `ray://HOST:PORT`."""
    limit: Positive | None = None
    """Timeout in seconds for scoring a candidate."""
    retries: Amount = 2
    """Number of retries of a candidate whose worker died."""
    cores: float = Field(default=1.0, ge=0, le=MAX_THREADS)
    """CPU cores, and threads, of each worker."""
    gpus: float = Field(default=0.0, ge=0, le=MAX_THREADS)
    """GPUs of each worker on Ray; may be a fraction."""

    def workers(self, override: str | None = None) -> Executor:
        """Return the executor, which has not started yet; `override` replaces the setting. Raises ArchError (A2601,
        A2602, A2603)."""
        return executor(
            override or self.executor, limit=self.limit, retries=self.retries, cores=self.cores, gpus=self.gpus
        )
