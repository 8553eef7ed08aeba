"""HTML report page of a run: a single file without external resources."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from math import isfinite
from statistics import median
from typing import Any

from archir.runs.report.choice_weights import heat_map, probability_range
from archir.runs.report.contents import ChoiceProbabilities, PhaseRows, Report
from archir.runs.report.curves import Chart, Value, line_chart
from archir.runs.report.trials import trials_section

_TIMES = {"seconds"}
"""Columns that hold times, which are not reproducible; they are shown in a separate section."""


def page(report: Report) -> str:
    """Return the HTML page of a report."""
    return document(report.title, report.subtitle, list(_sections(report)))


def document(title: str, subtitle: str, sections: Sequence[tuple[str, str]]) -> str:
    """Return an HTML page from (heading, HTML) sections."""
    style, script = _read("report.css"), _read("report.js")
    policy = f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    links = "".join(f'<a href="#{_anchor(name)}">{escape(name)}</a>' for name, _ in sections)
    body = "".join(
        f'<section id="{_anchor(name)}"><h2>{escape(name)}</h2>{content}</section>' for name, content in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p><nav>{links}</nav></header>\n"
        f'<main>{body}</main>\n<div id="tip" role="status" hidden></div>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _image(picture: str, alt: str) -> str:
    """Embed an SVG document in HTML as an image."""
    image = b64encode(picture.encode()).decode()
    return f'<div class="picture" tabindex="0"><img alt="{alt}" src="data:image/svg+xml;base64,{image}"></div>'


def _sections(report: Report) -> Iterator[tuple[str, str]]:
    """Yield (heading, HTML) for each section of a report."""
    if report.result:
        yield "Result", _facts(report.result)
    for phase in report.phases:
        yield f"Phase {phase.name}", _phase(phase)
    if report.choice_probabilities:
        yield "Architecture parameters", _heat_maps(report.choice_probabilities)
    if report.scatter_plots:
        alt = "trials by two scores, with the Pareto front marked"
        yield "Trials by their scores", "".join(_image(plane, alt) for plane in report.scatter_plots)
    for trials in report.trials:
        yield f"Trials of {trials.phase}", trials_section(trials)
    if report.picture:
        yield "Derived network", _image(report.picture, "the derived network, drawn as a graph")
    for name, facts in report.facts.items():
        yield name, _facts(facts)
    if report.recipe:
        yield "Recipe", _recipe(report.recipe, report.overrides)
    if report.environment:
        yield "Environment", _facts(report.environment)
    timed = {phase.name: times for phase in report.phases if (times := _times(phase))}
    if timed:
        yield "Time", _facts(timed)


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
    """Return the HTML of a phase: charts, and a table of all metrics."""
    if not phase.rows:
        return f"<p>No {escape(phase.unit)} was done.</p>"
    columns = _columns(phase.rows)
    epochs = [int(row["epoch"]) + 1 for row in phase.rows]
    charts = "".join(
        line_chart(Chart(title, epochs, {name: columns[name] for name in names}, title == "accuracy", phase.unit))
        for title, names in _grouped(columns)
    )
    names = [name for name in _names(phase.rows) if name not in _TIMES | {"epoch"}]
    head = "".join(f"<th>{escape(name)}</th>" for name in [phase.unit, *names])
    rows = "".join(
        f"<tr><td>{epoch}</td>{''.join(f'<td>{_value(row.get(name))}</td>' for name in names)}</tr>"
        for epoch, row in zip(epochs, phase.rows, strict=True)
    )
    table = f'<div class="scroll" tabindex="0"><table class="figures"><tr>{head}</tr>{rows}</table></div>'
    return f'<div class="charts">{charts}</div><details><summary>Figures</summary>{table}</details>'


def _names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the column names in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Value]]:
    """Return the columns with at least one number, except times and epochs."""
    columns = {}
    for name in _names(rows):
        column = [finite_number(row.get(name)) for row in rows]
        if name not in _TIMES | {"epoch"} and any(value is not None for value in column):
            columns[name] = column
    return columns


def finite_number(value: Any) -> Value:
    """Return a finite number as float; None for anything else."""
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _grouped(columns: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Group columns into charts: all losses, all accuracies, and each other metric with its validation counterpart."""
    groups: dict[str, list[str]] = {"loss": [], "accuracy": []}
    for name in columns:
        kind = next((kind for kind in ("loss", "accuracy") if kind in name), name.removeprefix("validation_"))
        groups.setdefault(kind, []).append(name)
    return [(kind, names) for kind, names in groups.items() if names]


def _heat_maps(weighings: Sequence[ChoiceProbabilities]) -> str:
    """Return the HTML of all heat maps, grouped by phase."""
    parts = []
    for phase in dict.fromkeys(choice.phase for choice in weighings):
        if phase:
            parts.append(f"<h3>{escape(phase)}</h3>")
        of_phase = [choice for choice in weighings if choice.phase == phase]
        low, high = probability_range(of_phase)
        parts.append(
            f'<p class="scale">probability {100 * low:.3g}% <i></i> {100 * high:.3g}%, epochs to the right</p>'
        )
        maps = "".join(heat_map(choice, low, high) for choice in of_phase)
        parts.append(f'<div class="heats" tabindex="0">{maps}</div>')
    return "".join(parts)


def _facts(facts: Mapping[str, Any]) -> str:
    """Return an HTML table of names and values."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{_value(value)}</td></tr>" for name, value in facts.items())
    return f'<div class="scroll"><table class="facts">{rows}</table></div>'


def _value(value: Any) -> str:
    """Format a table value as HTML."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
        case Mapping():
            return "<br>".join(f"{escape(str(name))} {_value(item)}" for name, item in value.items())
        case list() | tuple():
            return ", ".join(map(_value, value))
        case _:
            return escape(str(value))


def _times(phase: PhaseRows) -> dict[str, str]:
    """Return the total time and the median time per epoch, as text; {} if no times were recorded."""
    seconds = [value for row in phase.rows if (value := finite_number(row.get("seconds"))) is not None]
    if not seconds:
        return {}
    return {"in all": f"{sum(seconds):.1f} s", "median of epochs": f"{median(seconds):.2f} s"}


def _anchor(name: str) -> str:
    """Return the HTML id for a section heading."""
    return re.sub(r"\W+", "-", name.lower())


def _read(name: str) -> str:
    """Return the text of a resource file in `archir/runs/sheet`."""
    return (files("archir.runs") / "sheet" / name).read_text("utf-8")


def _hash(source: str) -> str:
    """Return the content security policy hash of an inline style or script; only those with a listed hash are
    allowed."""
    return "sha256-" + b64encode(sha256(source.encode()).digest()).decode()
