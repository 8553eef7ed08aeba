"""Input (`Job`) and output (`Outcome`) of a strategy, independent of the backend that trains and scores; outcomes as
files of a run.

Type variables: `Images` is the data type on which a backend trains, `Tensor` the type of its weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from archir.backends.weight_names import RenamedWeights
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.serial import from_json, to_json
from archir.recipes.open_choices import OpenSpace
from archir.recipes.recipe import Phase
from archir.runs import Run, Trial
from archir.runs.folder import ALPHAS, ARCHITECTURE, NETWORK, SUPERNET, WEIGHTS
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
    return json.dumps([architecture, budget], sort_keys=True)


SharedChannels = Literal["heads", "leading"]
"""Which channels a smaller attention uses: the first channels of each head (`heads`), or the first of all
channels (`leading`)."""


@dataclass(frozen=True)
class SupernetRecord:
    """Graph of a supernet as JSON, its weight sharing, and the labels of choices that were fixed during training."""

    graph: Mapping[str, Any]
    sharing: SharedChannels
    fixed: Mapping[str, Any]

    @classmethod
    def of(cls, opened: OpenSpace, graph: Graph, sharing: SharedChannels) -> SupernetRecord:
        """Return the record for a supernet with this graph, trained on the open choices of a space."""
        labels = {
            c.path: c.label(opened.fixed_outcomes[c.path])
            for c in opened.full_space.choices
            if c.path in opened.fixed_outcomes
        }
        return cls(to_json(graph), sharing, labels)

    def to_supernet(self, graph: Graph, architecture: Architecture) -> Architecture:
        """Convert an architecture of the full space to one of the supernet's space, which has the given graph.

        Raises ArchError: A2209 (it differs in a choice that was fixed during training), A1004 or A1008 (it is not an
        architecture of the supernet).
        """
        for path, label in architecture.items():
            if path in self.fixed and self.fixed[path] != label:
                text = f"the supernet was trained with `{path}` = {self.fixed[path]}, not {label}"
                hint = "fix the choice at the same alternative, or open it when training the supernet"
                raise fail("A2209", text, None, hint)
        return Space(graph).from_outcomes(architecture.outcomes)


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


def outcome_files(phase: str, outcome: Outcome[Any], weights: bytes) -> dict[str, str | bytes]:
    """Convert an outcome to files by name; `weights` are already serialised by the training backend."""
    base = f"phases/{phase}/"
    files: dict[str, str | bytes] = {f"{base}{WEIGHTS}": weights}
    if outcome.architecture is not None:
        files[f"{base}{ARCHITECTURE}"] = outcome.architecture.to_json()
    if outcome.alphas is not None:
        alphas = {"logits": outcome.alphas, "history": outcome.history}
        files[f"{base}{ALPHAS}"] = json.dumps(alphas) + "\n"
    if outcome.supernet is not None:
        files[f"{base}{SUPERNET}"] = json.dumps(asdict(outcome.supernet)) + "\n"
    if outcome.network is not None:
        files[f"{base}{NETWORK}"] = json.dumps(to_json(outcome.network)) + "\n"
    return {**files, **{base + name: content for name, content in outcome.files.items()}}


def read_outcome(
    run: Run, phase: str, space: Space, weights: Callable[[bytes], Mapping[str, Tensor]]
) -> Outcome[Tensor]:
    """Read the outcome of a finished phase; `weights` deserialises the backend's weights file."""
    base = f"phases/{phase}/"

    def content(file: str) -> bytes | None:
        """Return the content of a file of the phase; None if it does not exist."""
        return run.content(base + file) if base + file in run.entries else None

    labels, alphas, network = content(ARCHITECTURE), content(ALPHAS), content(NETWORK)
    stored = json.loads(alphas) if alphas is not None else {"logits": None, "history": {}}
    return Outcome(
        architecture=space.architecture(json.loads(labels)["choices"]) if labels is not None else None,
        alphas=stored["logits"],
        history=stored["history"],
        network=from_json(json.loads(network)) if network is not None else None,
        weights=weights(content(WEIGHTS) or b""),
        supernet=read_supernet(run, base + SUPERNET),
    )


def read_supernet(run: Run, name: str) -> SupernetRecord | None:
    """Read a supernet record from a file of a run; None if there is no such file."""
    return SupernetRecord(**json.loads(run.content(name))) if name in run.entries else None
