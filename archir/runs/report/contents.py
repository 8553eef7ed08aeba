"""What a run's report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archir.runs.report.trials import Trials


@dataclass(frozen=True)
class PhaseRows:
    """A phase's figures: a row for each epoch, or what it is called, as `Phase.rows` gives them."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    unit: str = "epoch"


@dataclass(frozen=True)
class Weighing:
    """How a choice's alternatives were weighed: `probabilities[epoch][alternative]`, and which ones were derived."""

    choice: str
    alternatives: Sequence[str]
    probabilities: Sequence[Sequence[float]]
    chosen: Sequence[int] = ()
    phase: str = ""


@dataclass(frozen=True)
class Report:
    """Everything on the page of a run. The page is a function of this alone.

    `picture` is an SVG document as `archir.pictures` writes it; `planes` are such documents of trials by their scores;
    `verdict` is what it came to, which is shown first; `trials` is what phases tried.
    `facts` are tables of names and values by heading, such as costs and what the export's verification found; `recipe`
    is the recipe's text, and `overrides` are its changes by `--set`: start, end, new text.
    """

    title: str
    subtitle: str = ""
    phases: Sequence[PhaseRows] = ()
    weighings: Sequence[Weighing] = ()
    picture: str = ""
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recipe: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)
    planes: Sequence[str] = ()
    verdict: Mapping[str, Any] = field(default_factory=dict)
    trials: Sequence[Trials] = ()
    overrides: Sequence[tuple[int, int, str]] = ()
