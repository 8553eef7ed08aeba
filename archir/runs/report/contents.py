"""Data from which the report page of a run is generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archir.runs.report.trials import TrialTable


@dataclass(frozen=True)
class PhaseRows:
    """Metrics of a phase, as returned by `Phase.rows`; `unit` is the word for a row, such as epoch or generation."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    unit: str = "epoch"


@dataclass(frozen=True)
class ChoiceProbabilities:
    """Probabilities of a choice's alternatives over epochs, `probabilities[epoch][alternative]`.

    `chosen` are the indices of the alternatives in the derived architecture.
    """

    choice: str
    alternatives: Sequence[str]
    probabilities: Sequence[Sequence[float]]
    chosen: Sequence[int] = ()
    phase: str = ""


@dataclass(frozen=True)
class Report:
    """All data of a run's report page.

    `picture` is an SVG of the derived network from `archir.pictures`; `scatter_plots` are SVGs of trials by two
    scores. `result`, shown first, has the results of the run; `trials` has a table of candidates per phase.
    `facts` are (name, value) tables by heading, such as costs and export verification. `recipe` is the recipe
    text; `overrides` are the edits to it made with `--set`: (start, end, new text).
    """

    title: str
    subtitle: str = ""
    phases: Sequence[PhaseRows] = ()
    choice_probabilities: Sequence[ChoiceProbabilities] = ()
    picture: str = ""
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recipe: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    scatter_plots: Sequence[str] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
    trials: Sequence[TrialTable] = ()
    overrides: Sequence[tuple[int, int, str]] = ()
