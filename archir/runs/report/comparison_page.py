"""HTML page that compares runs: settings, results, and curves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from archir.runs.comparison import compare_runs, labels
from archir.runs.report.curves import Chart, line_chart
from archir.runs.report.page import document, finite_number
from archir.runs.run import Run
from archir.runs.summaries import Summary

BEST = "best.json"
"""Name of the file with the resulting architecture of a run."""


def comparison_page(pairs: Sequence[tuple[Path, Summary]]) -> str:
    """Return an HTML page that compares runs. Raises ArchError if one of them is damaged."""
    runs = {label: Run.open(path) for label, (path, _) in zip(labels(pairs), pairs, strict=True)}
    return document(f"{len(runs)} runs side by side", ", ".join(runs), list(_sections(pairs, runs)))


def _sections(pairs: Sequence[tuple[Path, Summary]], runs: Mapping[str, Run]) -> Iterator[tuple[str, str]]:
    """Yield (heading, HTML) for each section of the page."""
    comparison = compare_runs(pairs)
    yield "Result", _table(comparison.head, comparison.rows)
    for phase in dict.fromkeys(phase.name for run in runs.values() for phase in run.phases()):
        if charts := "".join(_charts(phase, runs)):
            yield f"Phase {phase}", f'<div class="charts">{charts}</div>'
    chosen = {name: _choices_of(run) for name, run in runs.items()}
    if any(chosen.values()):
        paths = dict.fromkeys(path for choices in chosen.values() for path in choices)
        rows = [[path, *(choices.get(path, "") for choices in chosen.values())] for path in paths]
        differ = [row for row in rows if len({*row[1:]}) > 1]
        text = f"<p>{len(rows) - len(differ)} of {len(rows)} choices are the same in all runs.</p>"
        yield "Choices that differ", text + (_table(["", *chosen], differ) if differ else "")


def _charts(phase: str, runs: Mapping[str, Run]) -> Iterator[str]:
    """Yield one chart per metric of a phase, with a line for each run that has the metric."""
    columns = {name: {int(row["epoch"]) + 1: row for row in run.phase(phase).rows()} for name, run in runs.items()}
    epochs = sorted({epoch for rows in columns.values() for epoch in rows})
    for figure in dict.fromkeys(name for rows in columns.values() for row in rows.values() for name in row):
        lines = {name: [finite_number(rows.get(e, {}).get(figure)) for e in epochs] for name, rows in columns.items()}
        series = {name: line for name, line in lines.items() if any(value is not None for value in line)}
        if series and figure not in ("epoch", "seconds"):
            yield line_chart(Chart(figure, epochs, series, "accuracy" in figure))


def _choices_of(run: Run) -> dict[str, str]:
    """Return the choices of a run's resulting architecture, by path; {} if there is none yet."""
    if BEST not in run.files.manifest.files:
        return {}
    choices: dict[str, Any] = json.loads(run.content(BEST)).get("choices", {})
    return {path: label if isinstance(label, str) else json.dumps(label) for path, label in choices.items()}


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; the first cell of each row is a heading."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return f'<div class="scroll" tabindex="0"><table class="figures"><tr>{top}</tr>{body}</table></div>'
