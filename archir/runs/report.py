"""Report page of a run: results, curves, architecture parameters over time, trials, and the recipe."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite
from statistics import median
from typing import Any

from archir.pages.charts import LineChart
from archir.pages.page import Html, details, facts, image, page, table, value_html
from archir.runs.run import Run
from archir.runs.trial_report import TrialRow, TrialTable, trials_section

_TIMES = {"seconds"}
"""Columns that hold times, which are not reproducible; they are shown in a separate section."""
_BLUE = b"\x2b\x95\xe3"
"""RGB colour of the pixels of heat maps."""
_MAX_COLUMNS = 300
"""Maximum number of heat map columns. If there are more epochs, evenly spaced epochs are shown."""


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


def report_page(report: Report) -> str:
    """Return the HTML page of a report."""
    return page(report.title, report.subtitle, _sections(report))


def trial_table(
    run: Run, phase: str, criterion: str, larger: Mapping[str, bool], costs: Mapping[str, Sequence[float]]
) -> TrialTable:
    """Return the table of a phase's trials, ranked by `criterion` or, if they lack it, by their first score.

    `larger` tells for each score whether larger values are better; `costs` has the costs of all trials by name.
    """
    trials = run.phase(phase).trials()
    names = list(dict.fromkeys(name for trial in trials for name in trial.scores))
    score = criterion if criterion in names else names[0] if names else ""
    rows = [
        TrialRow(
            trial.id, trial.scores, {name: float(each[i]) for name, each in costs.items()}, trial.architecture,
            trial.error,
        )
        for i, trial in enumerate(trials)
    ]  # fmt: skip

    def command(number: int) -> str:
        return f"archir train --trial {run.folder.name} {phase}:{number} -o {phase}-{number}"

    return TrialTable(phase, rows, command, score, larger.get(score, True))


def _sections(report: Report) -> Iterator[tuple[str, str]]:
    if report.result:
        yield "Result", facts(report.result)
    for phase in report.phases:
        yield f"Phase {phase.name}", _phase(phase)
    if report.choice_probabilities:
        yield "Architecture parameters", _heat_maps(report.choice_probabilities)
    if report.scatter_plots:
        alt = "trials by two scores, with the Pareto front marked"
        yield "Trials by their scores", "".join(image(plane, alt) for plane in report.scatter_plots)
    for trials in report.trials:
        yield f"Trials of {trials.phase}", trials_section(trials)
    if report.picture:
        yield "Derived network", image(report.picture, "the derived network, drawn as a graph")
    for name, values in report.facts.items():
        yield name, facts(values)
    if report.recipe:
        yield "Recipe", _recipe(report.recipe, report.overrides)
    if report.environment:
        yield "Environment", facts(report.environment)
    if timed := {phase.name: times for phase in report.phases if (times := _times(phase))}:
        yield "Time", facts(timed)


def _recipe(text: str, overrides: Sequence[tuple[int, int, str]]) -> str:
    """Return the recipe as HTML; settings that `--set` replaced or added are marked."""
    parts, position = [], 0
    for start, end, new in sorted(overrides):
        parts.append(escape(text[position:start]))
        parts.append(f"<del>{escape(text[max(position, start) : end])}</del> " if end > max(position, start) else "")
        parts.append(f"<ins>{escape(new)}</ins>")
        position = max(position, end)
    note = "<p>Marked settings were replaced or added on the command line.</p>" if overrides else ""
    return f'{note}<pre tabindex="0">{"".join(parts)}{escape(text[position:])}</pre>'


def _phase(phase: PhaseRows) -> str:
    if not phase.rows:
        return f"<p>No {escape(phase.unit)} was done.</p>"
    names = [
        name for name in dict.fromkeys(name for row in phase.rows for name in row) if name not in _TIMES | {"epoch"}
    ]
    columns = {name: [finite_number(row.get(name)) for row in phase.rows] for name in names}
    epochs = [int(row["epoch"]) + 1 for row in phase.rows]
    drawn = [name for name in names if any(value is not None for value in columns[name])]
    charts = "".join(
        LineChart(title, epochs, {name: columns[name] for name in group}, title == "accuracy", phase.unit).figure()
        for title, group in _grouped(drawn)
    )
    rows = (
        [epoch, *(value_html(row.get(name)) for name in names)] for epoch, row in zip(epochs, phase.rows, strict=True)
    )
    return f'<div class="charts">{charts}</div>{details("Figures", table([phase.unit, *names], rows))}'


def finite_number(value: Any) -> float | None:
    """Return a finite number as float; None for anything else."""
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _grouped(columns: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Group columns into charts: all losses, all accuracies, and each other metric with its validation counterpart."""
    groups: dict[str, list[str]] = {"loss": [], "accuracy": []}
    for name in columns:
        kind = next((kind for kind in ("loss", "accuracy") if kind in name), name.removeprefix("validation_"))
        groups.setdefault(kind, []).append(name)
    return [(kind, names) for kind, names in groups.items() if names]


def _heat_maps(probabilities: Sequence[ChoiceProbabilities]) -> str:
    """Return all heat maps, grouped by phase; those of a phase have the same colour scale."""
    parts = []
    for phase in dict.fromkeys(choice.phase for choice in probabilities):
        if phase:
            parts.append(f"<h3>{escape(phase)}</h3>")
        of_phase = [choice for choice in probabilities if choice.phase == phase]
        values = [float(value) for choice in of_phase for row in choice.probabilities for value in row]
        low, high = min(values, default=0.0), max(values, default=1.0)
        low, high = (low, high) if high > low else (0.0, 1.0)
        ends = f"probability {100 * low:.3g}% <i></i> {100 * high:.3g}%, epochs to the right"
        maps = "".join(_heat_map(choice, low, high) for choice in of_phase)
        parts.append(f'<p class="scale">{ends}</p><div class="heats" tabindex="0">{maps}</div>')
    return "".join(parts)


def _heat_map(choice: ChoiceProbabilities, low: float, high: float) -> Html:
    """Return the figure of a choice: an image of its alternatives' probabilities by epoch, as opacity from `low` to
    `high`, with names and final probabilities."""
    epochs = shown_epochs(len(choice.probabilities))
    columns = [[min(1.0, max(0.0, float(p))) for p in choice.probabilities[epoch]] for epoch in epochs]
    last = columns[-1] if columns else [0.0] * len(choice.alternatives)
    names = "".join(
        f"<li{' class=chosen' if position in choice.chosen else ''}>{escape(name)}</li>"
        for position, name in enumerate(choice.alternatives)
    )
    shares = "".join(f"<li>{100 * share:.1f}%</li>" for share in last)
    data = {
        "epochs": [epoch + 1 for epoch in epochs],
        "names": [*choice.alternatives],
        "permille": [[round(1000 * p) for p in column] for column in columns],
    }
    shades = [[min(1.0, max(0.0, (p - low) / (high - low))) for p in column] for column in columns]
    source = b64encode(png(shades)).decode() if columns else ""
    return Html(
        f'<figure class="heat" data-heat="{escape(json.dumps(data, separators=(",", ":")))}">'
        f"<figcaption>{escape(choice.choice)}</figcaption><ol>{names}</ol>"
        f'<img alt="probabilities by epoch" height="{20 * len(last)}" src="data:image/png;base64,{source}">'
        f'<ol class="shares">{shares}</ol></figure>'
    )


def shown_epochs(count: int) -> list[int]:
    """Return the indices of the epochs to show: all, or evenly spaced ones that include the first and the last."""
    if count <= _MAX_COLUMNS:
        return list(range(count))
    return [round(index * (count - 1) / (_MAX_COLUMNS - 1)) for index in range(_MAX_COLUMNS)]


def png(columns: Sequence[Sequence[float]]) -> bytes:
    """Return a PNG image (RFC 2083) with one pixel per value in [0, 1]: blue, with the value as opacity."""
    width, height = len(columns), len(columns[0])
    rows = (b"\0" + b"".join(_BLUE + bytes([round(255 * column[row])]) for column in columns) for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _times(phase: PhaseRows) -> dict[str, str]:
    """Return the total time and the median time per epoch, as text; {} if no times were recorded."""
    seconds = [value for row in phase.rows if (value := finite_number(row.get("seconds"))) is not None]
    if not seconds:
        return {}
    return {"in all": f"{sum(seconds):.1f} s", "median of epochs": f"{median(seconds):.2f} s"}
