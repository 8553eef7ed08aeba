"""The report of a run as a page: one file, without anything from elsewhere."""

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

from archir.runs.report.choice_weights import extent, heat
from archir.runs.report.contents import PhaseRows, Report, Weighing
from archir.runs.report.curves import Chart, Value, curves
from archir.runs.report.trials import view

_TIMES = {"seconds"}
"""Columns that differ from one run to the next, and are shown apart."""


def page(report: Report) -> str:
    """The HTML of a report."""
    return document(report.title, report.subtitle, list(_sections(report)))


def document(title: str, subtitle: str, sections: Sequence[tuple[str, str]]) -> str:
    """A page of sections, HTML by heading."""
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
    image = b64encode(picture.encode()).decode()
    return f'<div class="picture" tabindex="0"><img alt="{alt}" src="data:image/svg+xml;base64,{image}"></div>'


def _sections(report: Report) -> Iterator[tuple[str, str]]:
    if report.verdict:
        yield "Result", _facts(report.verdict)
    for phase in report.phases:
        yield f"Phase {phase.name}", _phase(phase)
    if report.weighings:
        yield "Architecture parameters", _weighings(report.weighings)
    if report.planes:
        alt = "trials by two scores, those that none dominates marked"
        yield "Trials by their scores", "".join(_image(plane, alt) for plane in report.planes)
    for trials in report.trials:
        yield f"Trials of {trials.phase}", view(trials)
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
    """The text of a recipe, with the settings that `--set` replaced and added marked."""
    parts, at = [], 0
    for start, end, new in sorted(overrides):
        parts.append(escape(text[at:start]))
        parts.append(f"<del>{escape(text[max(at, start) : end])}</del> " if end > max(at, start) else "")
        parts.append(f"<ins>{escape(new)}</ins>")
        at = max(at, end)
    note = "<p>Marked settings were replaced or added on the command line.</p>" if overrides else ""
    return f'{note}<pre tabindex="0">{"".join(parts)}{escape(text[at:])}</pre>'


def _phase(phase: PhaseRows) -> str:
    if not phase.rows:
        return f"<p>No {escape(phase.unit)} was done.</p>"
    columns = _columns(phase.rows)
    epochs = [int(row["epoch"]) + 1 for row in phase.rows]
    charts = "".join(
        curves(Chart(title, epochs, {name: columns[name] for name in names}, title == "accuracy", phase.unit))
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
    return list(dict.fromkeys(name for row in rows for name in row))


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Value]]:
    """Columns that hold a number at least once."""
    found = {}
    for name in _names(rows):
        column = [number(row.get(name)) for row in rows]
        if name not in _TIMES | {"epoch"} and any(value is not None for value in column):
            found[name] = column
    return found


def number(value: Any) -> Value:
    """A figure that can be drawn; None for others."""
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _grouped(columns: Iterable[str]) -> list[tuple[str, list[str]]]:
    """What shares a chart: losses, accuracies, everything else for itself."""
    groups: dict[str, list[str]] = {"loss": [], "accuracy": []}
    for name in columns:
        kind = next((kind for kind in ("loss", "accuracy") if kind in name), name.removeprefix("validation_"))
        groups.setdefault(kind, []).append(name)
    return [(kind, names) for kind, names in groups.items() if names]


def _weighings(weighings: Sequence[Weighing]) -> str:
    """Heat maps by phase; a bullet marks what was derived."""
    parts = []
    for phase in dict.fromkeys(one.phase for one in weighings):
        if phase:
            parts.append(f"<h3>{escape(phase)}</h3>")
        ours = [one for one in weighings if one.phase == phase]
        low, high = extent(ours)
        parts.append(
            f'<p class="scale">probability {100 * low:.3g}% <i></i> {100 * high:.3g}%, epochs to the right</p>'
        )
        maps = "".join(heat(one, low, high) for one in ours)
        parts.append(f'<div class="heats" tabindex="0">{maps}</div>')
    return "".join(parts)


def _facts(facts: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{_value(value)}</td></tr>" for name, value in facts.items())
    return f'<div class="scroll"><table class="facts">{rows}</table></div>'


def _value(value: Any) -> str:
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
    seconds = [value for row in phase.rows if (value := number(row.get("seconds"))) is not None]
    if not seconds:
        return {}
    return {"in all": f"{sum(seconds):.1f} s", "median of epochs": f"{median(seconds):.2f} s"}


def _anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name.lower())


def _read(name: str) -> str:
    return (files("archir.runs") / "sheet" / name).read_text("utf-8")


def _hash(source: str) -> str:
    """What a content security policy calls an inline style or script: only these, as they are, may run."""
    return "sha256-" + b64encode(sha256(source.encode()).digest()).decode()
