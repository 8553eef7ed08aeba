"""Input (`Job`) and output (`Outcome`) of a strategy, independent of the backend that trains and scores.

Type variables: `Images` is the data type on which a backend trains, `Tensor` the type of its weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from archir.backends.weight_names import RenamedWeights
from archir.ir.graph import Graph
from archir.recipes.recipe import Phase
from archir.recipes.supernet import SupernetRecord
from archir.runs import Trial
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

if TYPE_CHECKING:  # few recipes look results up
    from archir.tabular.results import Results

Images = TypeVar("Images")
Tensor = TypeVar("Tensor")

DecideOnce = Callable[[str, Callable[[], Mapping[str, Any]]], Mapping[str, Any]]
"""Function (name, decide) that makes a decision of a phase once: it calls `decide()`, stores the result and
returns it.

In a resumed phase, it returns the stored decision.
"""


def _decide_now(name: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Call `decide` without storing the result."""
    return decide()


class Trials:
    """Trials of a phase by id, in memory only; a subclass stores those of runs."""

    def __init__(self, trials: Iterable[Trial] = (), superseded: Iterable[Trial] = ()) -> None:
        """Start with `trials`; `superseded` are trials from before the phase was restarted."""
        self.by_id = {trial.id: trial for trial in trials}
        self._superseded = {_trial_key(old.architecture, old.budget): old for old in superseded if old.status == "done"}

    def before(self, architecture: Mapping[str, Any], budget: float) -> Trial | None:
        """Return an architecture's successful trial with this budget from before the restart of the phase.

        Returns None if there is no such trial.
        """
        return self._superseded.get(_trial_key(architecture, budget)) if self._superseded else None

    def put(self, trial: Trial) -> None:
        """Record a trial."""
        self.by_id[trial.id] = trial


def _trial_key(architecture: Mapping[str, Any], budget: float) -> str:
    """Return a lookup key for a trial: its architecture and budget as JSON."""
    return json.dumps([architecture, budget], sort_keys=True)


@dataclass(frozen=True)
class Job(Generic[Images, Tensor]):
    """Input of a strategy: a phase, its space, and its data. Results of earlier phases are None unless the phase
    asks for them."""

    phase: Phase
    space: Space
    data: Images
    seed: int
    device: str = "cpu"
    folder: Path = Path()
    """Folder relative to which paths in the phase's settings are resolved."""
    alphas: Mapping[str, list[float]] | None = None
    architecture: Mapping[str, Any] | None = None
    weights: Mapping[str, Tensor] | None = None
    supernet: SupernetRecord | None = None
    """Supernet to which `weights` belong; None if they belong to no supernet."""
    renamed: RenamedWeights | None = None
    """Mapping from weight names in a file, if `start.map` is set; the weights are then those of the complete
    network."""
    trials: Trials = field(default_factory=Trials)
    results: Results | None = None
    """Benchmark table in which candidates are looked up; None if they are trained. A job with a table has no data."""
    earlier: Sequence[Trial] = ()
    """Trials of the earlier phase that `start.trials` names."""
    executor: str | None = None
    """Executor that scores candidates; if given, it overrides the phase's setting."""
    decide_once: DecideOnce = _decide_now


@dataclass(frozen=True)
class Outcome(Generic[Tensor]):
    """Result of a phase, as far as it has run.

    `network` is the trained, deployable network, reduced to its first output; `weights` may contain more than its
    weights.
    """

    architecture: Architecture | None = None
    alphas: Mapping[str, list[float]] | None = None
    history: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """Probabilities of each choice's alternatives, at the start and after each epoch."""
    network: Graph | None = None
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    supernet: SupernetRecord | None = None
    """Supernet to which `weights` belong; None if they belong to no supernet."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Additional files of the phase, by name within its folder."""
