"""Report section on the trials of a phase: scatter plot, importance of choices, and a sortable table."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from archir.runs.report.importance import choice_importances, importance_section
from archir.runs.report.points import scatter_figure
from archir.search.fronts.metric_format import format_metric

MAX_LISTED = 2_000
"""Maximum number of candidates listed per phase; the first ones are listed."""


@dataclass(frozen=True)
class TrialRow:
    """Candidate of a phase: id, scores (None for those that it lacks because it failed), costs, and choices."""

    id: int
    scores: Mapping[str, float | None]
    costs: Mapping[str, float]
    choices: Mapping[str, Any]
    error: str | None = None


@dataclass(frozen=True)
class TrialTable:
    """Candidates of a phase in the order of proposal.

    `command(id)` returns the shell command that trains a candidate. Candidates are ranked by `score`; `larger`
    tells whether larger values are better. `pictures` maps ids of some candidates to SVG documents.
    """

    phase: str
    rows: Sequence[TrialRow]
    command: Callable[[int], str]
    score: str = ""
    larger: bool = True
    pictures: Mapping[int, str] = field(default_factory=dict)

    @property
    def scored(self) -> list[tuple[TrialRow, float]]:
        """(candidate, score) pairs for all candidates that have the score, best first."""
        scored = [(row, value) for row in self.rows if (value := row.scores.get(self.score)) is not None]
        return sorted(scored, key=lambda pair: -pair[1] if self.larger else pair[1])


def trials_section(trials: TrialTable) -> str:
    """Return the HTML section: scatter plot, importance of choices, and table."""
    scored = trials.scored
    parts = []
    if scored:
        cost = next((name for name in ("macs", "params") if name in scored[0][0].costs), None)
        urls = {number: _url(picture) for number, picture in trials.pictures.items()}
        plotted = [(row.id, row.costs[cost] if cost else float(row.id), value) for row, value in scored[:MAX_LISTED]]
        parts.append(scatter_figure(trials.phase, trials.score, cost or "trial", plotted, urls))
        importances = choice_importances([(row.choices, value) for row, value in scored], trials.larger)
        section = importance_section(importances, [value for _, value in scored], trials.score, format_metric)
        parts.append(f"<h3>Which choices mattered</h3>{section}")
        parts.append("<h3>All trials</h3>")
    return "".join([*parts, trials_table(trials)])


def _url(picture: str) -> str:
    """Return a data URL for an SVG document."""
    return f"data:image/svg+xml;base64,{b64encode(picture.encode()).decode()}"


def trials_table(trials: TrialTable) -> str:
    """Return an HTML table that sorts by a column when it is clicked; rows expand to show choices and training
    command."""
    listed = trials.rows[:MAX_LISTED]
    scores = list(dict.fromkeys(name for row in listed for name in row.scores))
    costs = list(dict.fromkeys(name for row in listed for name in row.costs))
    head = "".join(f'<th><button type="button">{escape(name)}</button></th>' for name in ["trial", *scores, *costs])
    rows = "".join(_row(row, scores, costs, trials.command(row.id)) for row in listed)
    more = len(trials.rows) - len(listed)
    note = f"<p>{more:,} more are in the run's journal.</p>" if more else ""
    body = f"<thead><tr>{head}<th>choices</th></tr></thead><tbody>{rows}</tbody>"
    return f'<div class="scroll" tabindex="0"><table class="figures sortable">{body}</table></div>{note}'


def _row(row: TrialRow, scores: Sequence[str], costs: Sequence[str], command: str) -> str:
    """Return the HTML table row of a candidate."""
    cells = [_cell(row.id, str(row.id))]
    cells += [_cell(row.scores.get(name), _score(name, row.scores.get(name))) for name in scores]
    cells += [_cell(row.costs.get(name), f"{row.costs[name]:,.0f}" if name in row.costs else "-") for name in costs]
    labels = {path: label if isinstance(label, str) else json.dumps(label) for path, label in row.choices.items()}
    choices = ", ".join(f"{path} = {label}" for path, label in labels.items())
    failed = f"<p>{escape(row.error)}</p>" if row.error else ""
    inside = f"<details><summary>show</summary><p>{escape(choices)}</p>{failed}<code>{escape(command)}</code></details>"
    return f'<tr data-trial="{row.id}">{"".join(cells)}<td>{inside}</td></tr>'


def _cell(value: float | None, text: str) -> str:
    """Return an HTML table cell; the table is sorted by `value`, and None sorts as missing."""
    return f'<td data-value="{"" if value is None else repr(float(value))}">{escape(text)}</td>'


def _score(name: str, value: float | None) -> str:
    """Format a score; None, for a failed candidate, as "failed"."""
    return "failed" if value is None else format_metric(name, value)
