"""Settings of phases that try candidates: the scorer, and the executor that runs it."""

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
    """Registered scorer: its options class, its constructor, and the prefix of its scores' names."""

    options: type[Settings]
    make: Callable[[Any, Space, Any], Callable[[Architecture, float], Mapping[str, float]]]
    prefix: str = ""


SCORERS: Registry[str, ScorerKind] = Registry("scorer", "scorers")
"""Scorers by name; each backend registers its own."""

Make = TypeVar("Make", bound=Callable[..., Callable[[Architecture, float], Mapping[str, float]]])


def scorer(name: str, options: type[Settings] = Settings, *, prefix: str = "") -> Callable[[Make], Make]:
    """Return a decorator that registers a function `make(work, space, options)` as a scorer.

    `make` is called once in each worker. It returns a function (architecture, fraction of the full training
    budget) -> named scores. In per-epoch metrics, the names of scores get the `prefix`.
    """

    def register(make: Make) -> Make:
        """Register `make` under the name."""
        SCORERS.register(name, ScorerKind(options, make, prefix), make)
        return make

    return register


TABLE = "table"
"""Name of the scorer that looks candidates up in the benchmark table of `evaluate`."""
MEASURING = ("inherited", "training")
"""Names of the scorers whose scores are measured on the validation samples."""


class Scorer(Settings):
    """How candidates are scored. Scores are the measures of the phase's objective on the validation samples."""

    kind: str = "inherited"
    """Kind of scorer:

    `inherited`: evaluation with the weights of the supernet in `start.weights`. `training`: training from scratch
    with the phase's settings, for the fraction of epochs that the candidate's budget sets. `proxies`: zero-cost
    proxies, without training. `predictor`: a model fitted to the trials of `start.trials`. `table`: lookup in the
    benchmark table of `evaluate`. Any other name: a scorer registered by a plugin.
    """
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of a scorer registered by a plugin."""
    recalibrate: Amount = 4
    """Number of batches for measuring batch-norm statistics before a network with inherited weights is scored."""
    images: Count | None = None
    """Maximum number of validation samples used for scoring."""
    proxies: Annotated[tuple[str, ...], ListAsTuple] = ("naswot",)
    """Names of zero-cost proxies; their scores have the same names."""
    score: str = "accuracy"
    """Score that the predictor predicts."""

    @property
    def prefix(self) -> str:
        """Prefix of the scores' names in per-epoch metrics, which distinguishes them from metrics on other samples."""
        return self.registered.prefix

    @property
    def registered(self) -> ScorerKind:
        """Registered scorer of this kind. Raises ArchError (A2218) if there is none."""
        kind = SCORERS.find(self.kind)
        if kind is None:
            raise fail("A2218", f"there is no scorer `{self.kind}`", None, SCORERS.hint(self.kind))
        return kind


class TrialOptions(CostBounds):
    """Options that all strategies that try candidates have in addition to their own."""

    scorer: Scorer = Scorer()
    executor: str = "local"
    """Executor that scores candidates: `local`, `processes:4`, `ray`, `ray://HOST:PORT` (see
    `archir.search.executors`)."""
    limit: Positive | None = None
    """Time limit in seconds for scoring one candidate."""
    retries: Amount = 2
    """Maximum number of retries of a candidate whose worker died."""
    cores: float = Field(default=1.0, ge=0, le=MAX_THREADS)
    """Number of CPU cores, and of threads, per worker."""
    gpus: float = Field(default=0.0, ge=0, le=MAX_THREADS)
    """Number of GPUs per worker on Ray; may be fractional."""

    def workers(self, override: str | None = None) -> Executor:
        """Create the executor, not yet started; `override` replaces the setting. Raises ArchError (A2601, A2602,
        A2603)."""
        return executor(
            override or self.executor, limit=self.limit, retries=self.retries, cores=self.cores, gpus=self.gpus
        )
