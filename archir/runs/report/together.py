"""The page of several runs, side by side: what they were told, what they came to, and how they went there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from archir.runs.compared import compared, labels
from archir.runs.report.curves import Chart, curves
from archir.runs.report.page import document, number
from archir.runs.run import Run
from archir.runs.summaries import Summary

BEST = "best.json"


def together(found: Sequence[tuple[Path, Summary]]) -> str:
    """The page of runs that are whole."""
    runs = {label: Run.open(path) for label, (path, _) in zip(labels(found), found, strict=True)}
    return document(f"{len(runs)} runs side by side", ", ".join(runs), list(_sections(found, runs)))


def _sections(found: Sequence[tuple[Path, Summary]], runs: Mapping[str, Run]) -> Iterator[tuple[str, str]]:
    said = compared(found)
    yield "Result", _table(said.head, said.rows)
    for phase in dict.fromkeys(phase.name for run in runs.values() for phase in run.phases()):
        if charts := "".join(_charts(phase, runs)):
            yield f"Phase {phase}", f'<div class="charts">{charts}</div>'
    chosen = {name: _chosen(run) for name, run in runs.items()}
    if any(chosen.values()):
        paths = dict.fromkeys(path for one in chosen.values() for path in one)
        rows = [[path, *(one.get(path, "") for one in chosen.values())] for path in paths]
        differ = [row for row in rows if len({*row[1:]}) > 1]
        text = f"<p>{len(rows) - len(differ)} of {len(rows)} choices are the same in all runs.</p>"
        yield "Choices that differ", text + (_table(["", *chosen], differ) if differ else "")


def _charts(phase: str, runs: Mapping[str, Run]) -> Iterator[str]:
    """A chart for each figure of a phase, with a line for each run that has it."""
    columns = {name: {int(row["epoch"]) + 1: row for row in run.phase(phase).rows()} for name, run in runs.items()}
    epochs = sorted({epoch for rows in columns.values() for epoch in rows})
    for figure in dict.fromkeys(name for rows in columns.values() for row in rows.values() for name in row):
        lines = {name: [number(rows.get(e, {}).get(figure)) for e in epochs] for name, rows in columns.items()}
        series = {name: line for name, line in lines.items() if any(value is not None for value in line)}
        if series and figure not in ("epoch", "seconds"):
            yield curves(Chart(figure, epochs, series, "accuracy" in figure))


def _chosen(run: Run) -> dict[str, str]:
    """What a run chose, by path."""
    if BEST not in run.files.manifest.files:
        return {}
    choices: dict[str, Any] = json.loads(run.content(BEST)).get("choices", {})
    return {path: label if isinstance(label, str) else json.dumps(label) for path, label in choices.items()}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return f'<div class="scroll" tabindex="0"><table class="figures"><tr>{top}</tr>{body}</table></div>'
