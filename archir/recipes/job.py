"""What a strategy is given and what it comes to, whatever trains and scores.

`Images` are those that a backend trains on, `Tensor` is what it has weights in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from archir.backends.naming import Named
from archir.ir.graph import Graph
from archir.recipes.recipe import Phase
from archir.recipes.supernet import SupernetRecord
from archir.runs import Trial
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.tabular.table import Results

Images = TypeVar("Images")
Tensor = TypeVar("Tensor")

Decided = Callable[[str, Callable[[], Mapping[str, Any]]], Mapping[str, Any]]
"""What was decided under a name when the phase began; else what the function decides now, which is kept."""


def _now(name: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    return decide()


class Trials:
    """The trials of a phase, by id; these are kept nowhere else."""

    def __init__(self, known: Iterable[Trial] = (), before: Iterable[Trial] = ()) -> None:
        """Those that there are, and those from before the phase began anew."""
        self.known = {trial.id: trial for trial in known}
        self._before = {_tried(one.architecture, one.budget): one for one in before if one.status == "done"}

    def before(self, architecture: Mapping[str, Any], budget: float) -> Trial | None:
        """What came of an architecture and a budget before the phase began anew, if it was tried and did not fail."""
        return self._before.get(_tried(architecture, budget)) if self._before else None

    def put(self, trial: Trial) -> None:
        """Keep a trial."""
        self.known[trial.id] = trial


def _tried(architecture: Mapping[str, Any], budget: float) -> str:
    return json.dumps([architecture, budget], sort_keys=True)


@dataclass(frozen=True)
class Job(Generic[Images, Tensor]):
    """A phase and what it works on. What was taken over from earlier phases is None where nothing was."""

    phase: Phase
    space: Space
    data: Images
    seed: int
    device: str = "cpu"
    folder: Path = Path()
    """Where files that the phase names are looked for."""
    alphas: Mapping[str, list[float]] | None = None
    architecture: Mapping[str, Any] | None = None
    weights: Mapping[str, Tensor] | None = None
    supernet: SupernetRecord | None = None
    """What the weights belong to, if they are those of a supernet."""
    named: Named | None = None
    """How the weights were named in a file, if a map says so: they are those of the whole network, then."""
    trials: Trials = field(default_factory=Trials)
    results: Results | None = None
    """What candidates are looked up in, if they are; there are no data, then."""
    earlier: Sequence[Trial] = ()
    """What an earlier phase tried."""
    executor: str | None = None
    """Who scores candidates, instead of whom the phase names."""
    decided: Decided = _now


@dataclass(frozen=True)
class Outcome(Generic[Tensor]):
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
