"""What phases tried, as tables of the report: scores and costs of every candidate, sorted by what is clicked on."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from archir.runs.report.mattered import section, shares
from archir.runs.report.points import points
from archir.search.fronts.figures import shown

MOST = 2_000
"""Candidates of a phase that are listed: of more, the first ones."""


@dataclass(frozen=True)
class Tried:
    """A candidate: its number in the phase, its scores and costs (none of the first if it failed), its choices."""

    id: int
    scores: Mapping[str, float | None]
    costs: Mapping[str, float]
    choices: Mapping[str, Any]
    error: str | None = None


@dataclass(frozen=True)
class Trials:
    """What a phase tried, in this order, and the command that trains one of them: `command(id)`. By `score`, of which
    more or less is better, candidates are compared; `pictures` of some are SVG documents."""

    phase: str
    tried: Sequence[Tried]
    command: Callable[[int], str]
    score: str = ""
    larger: bool = True
    pictures: Mapping[int, str] = field(default_factory=dict)

    @property
    def scored(self) -> list[tuple[Tried, float]]:
        """Those that have the score, the best first."""
        found = [(one, value) for one in self.tried if (value := one.scores.get(self.score)) is not None]
        return sorted(found, key=lambda pair: -pair[1] if self.larger else pair[1])


def view(trials: Trials) -> str:
    """The HTML of points, of the choices that mattered, and of the table."""
    scored = trials.scored
    parts = []
    if scored:
        cost = next((name for name in ("macs", "params") if name in scored[0][0].costs), None)
        urls = {number: _url(picture) for number, picture in trials.pictures.items()}
        at = [(one.id, one.costs[cost] if cost else float(one.id), value) for one, value in scored[:MOST]]
        parts.append(points(trials.phase, trials.score, cost or "trial", at, urls))
        found = shares([(one.choices, value) for one, value in scored], trials.larger)
        parts.append(
            f"<h3>Which choices mattered</h3>{section(found, [value for _, value in scored], trials.score, shown)}"
        )
        parts.append("<h3>All of them</h3>")
    return "".join([*parts, table(trials)])


def _url(picture: str) -> str:
    return f"data:image/svg+xml;base64,{b64encode(picture.encode()).decode()}"


def table(trials: Trials) -> str:
    """The HTML of a table whose rows are sorted by the column that is clicked on, and open to choices and command."""
    some = trials.tried[:MOST]
    scores = list(dict.fromkeys(name for one in some for name in one.scores))
    costs = list(dict.fromkeys(name for one in some for name in one.costs))
    head = "".join(f'<th><button type="button">{escape(name)}</button></th>' for name in ["trial", *scores, *costs])
    rows = "".join(_row(one, scores, costs, trials.command(one.id)) for one in some)
    more = len(trials.tried) - len(some)
    rest = f"<p>{more:,} more are in the run's journal.</p>" if more else ""
    found = f"<thead><tr>{head}<th>choices</th></tr></thead><tbody>{rows}</tbody>"
    return f'<div class="scroll" tabindex="0"><table class="figures sortable">{found}</table></div>{rest}'


def _row(one: Tried, scores: Sequence[str], costs: Sequence[str], command: str) -> str:
    cells = [_cell(one.id, str(one.id))]
    cells += [_cell(one.scores.get(name), _score(name, one.scores.get(name))) for name in scores]
    cells += [_cell(one.costs.get(name), f"{one.costs[name]:,.0f}" if name in one.costs else "-") for name in costs]
    labels = {path: label if isinstance(label, str) else json.dumps(label) for path, label in one.choices.items()}
    choices = ", ".join(f"{path} = {label}" for path, label in labels.items())
    failed = f"<p>{escape(one.error)}</p>" if one.error else ""
    inside = f"<details><summary>show</summary><p>{escape(choices)}</p>{failed}<code>{escape(command)}</code></details>"
    return f'<tr data-trial="{one.id}">{"".join(cells)}<td>{inside}</td></tr>'


def _cell(value: float | None, text: str) -> str:
    return f'<td data-value="{"" if value is None else repr(float(value))}">{escape(text)}</td>'


def _score(name: str, value: float | None) -> str:
    return "failed" if value is None else shown(name, value)
