"""Data of a run's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archir.runs.report.trials import TrialTable


@dataclass(frozen=True)
class PhaseRows:
    """Figures of a phase, as `Phase.rows` returns them; `unit` is what a row is called, such as epoch or generation."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    unit: str = "epoch"


@dataclass(frozen=True)
class ChoiceProbabilities:
    """Probabilities of a choice's alternatives over epochs, `probabilities[epoch][alternative]`, and the positions of
    the alternatives that were derived (`chosen`)."""

    choice: str
    alternatives: Sequence[str]
    probabilities: Sequence[Sequence[float]]
    chosen: Sequence[int] = ()
    phase: str = ""


@dataclass(frozen=True)
class Report:
    """Data of a run's page, which depends on nothing else.

    `picture` is an SVG document as `archir.pictures` writes it; `scatter_plots` are SVG documents of trials by their
    scores. `result` has the results of the run, which are shown first; `trials` are tables of the candidates of each
    phase. `facts` are tables of names and values by heading, such as costs and the export's verification. `recipe` is
    the text of the recipe, and `overrides` are its changes by `--set`: start, end, new text.
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
