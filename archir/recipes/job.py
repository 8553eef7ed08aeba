"""Input (`Job`) and output (`Outcome`) of a strategy, independent of the backend that trains and scores.

The type variable `Images` is the data that a backend trains on, `Tensor` the type of its weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from archir.backends.weight_names import RenamedWeights
from archir.ir.graph import Graph
from archir.recipes.recipe import Phase
from archir.recipes.supernet import SupernetRecord
from archir.runs import Trial
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.tabular.results import Results

Images = TypeVar("Images")
Tensor = TypeVar("Tensor")

DecideOnce = Callable[[str, Callable[[], Mapping[str, Any]]], Mapping[str, Any]]
"""Function (name, decide) that returns a decision of a phase; `decide()` is called once and its result is stored.

A resumed phase gets the stored decision.
"""


def _decide_now(name: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Decide without storing the decision."""
    return decide()


class Trials:
    """Trials of a phase by id, in memory only; runs have a subclass that stores them."""

    def __init__(self, trials: Iterable[Trial] = (), superseded: Iterable[Trial] = ()) -> None:
        """Start with `trials`; `superseded` are trials from before the phase was restarted."""
        self.by_id = {trial.id: trial for trial in trials}
        self._superseded = {_trial_key(old.architecture, old.budget): old for old in superseded if old.status == "done"}

    def before(self, architecture: Mapping[str, Any], budget: float) -> Trial | None:
        """Return the successful trial of an architecture and a budget from before the phase was restarted, or None."""
        return self._superseded.get(_trial_key(architecture, budget)) if self._superseded else None

    def put(self, trial: Trial) -> None:
        """Store a trial."""
        self.by_id[trial.id] = trial


def _trial_key(architecture: Mapping[str, Any], budget: float) -> str:
    """Return the key of a trial: its architecture and budget as JSON."""
    return json.dumps([architecture, budget], sort_keys=True)


@dataclass(frozen=True)
class Job(Generic[Images, Tensor]):
    """A phase and what its strategy works on. What earlier phases hand over is None unless the phase asks for it."""

    phase: Phase
    space: Space
    data: Images
    seed: int
    device: str = "cpu"
    folder: Path = Path()
    """Folder from which paths in the phase's settings are resolved."""
    alphas: Mapping[str, list[float]] | None = None
    architecture: Mapping[str, Any] | None = None
    weights: Mapping[str, Tensor] | None = None
    supernet: SupernetRecord | None = None
    """Supernet that `weights` belong to, or None."""
    renamed: RenamedWeights | None = None
    """How the weights are named in their file, if `start.map` says so; they then belong to the complete network."""
    trials: Trials = field(default_factory=Trials)
    results: Results | None = None
    """Table in which candidates are looked up, or None. A job with a table has no data."""
    earlier: Sequence[Trial] = ()
    """Trials of the earlier phase named by `start.trials`."""
    executor: str | None = None
    """Executor that scores candidates, overriding the phase's setting."""
    decide_once: DecideOnce = _decide_now


@dataclass(frozen=True)
class Outcome(Generic[Tensor]):
    """Result of a phase, so far as it has run.

    `network` is the trained network that can be deployed, reduced to its first output; `weights` may hold more than its
    weights.
    """

    architecture: Architecture | None = None
    alphas: Mapping[str, list[float]] | None = None
    history: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """For each choice, the probabilities of its alternatives at the start and after each epoch."""
    network: Graph | None = None
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    supernet: SupernetRecord | None = None
    """Supernet that `weights` belong to, or None."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Further files that the phase writes, by their names in its folder."""
