"""The page of a study: one file, without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from archir.runs.report.page import document
from archir.studies.checklist import practices
from archir.studies.compared import LEVEL, AtBudget, Compared, OnTask, rows
from archir.studies.drawing import anytime, differences

_VALUES = {"median", "quartile_1", "quartile_3", "mean", "standard_error"}


def page(found: Compared, tables: Mapping[str, str], seconds: float, text: str) -> str:
    """The HTML of a study; `text` is its TOML."""
    study = found.study
    tasks = f"{len(found.tasks)} task{'s' if len(found.tasks) > 1 else ''}"
    about = f"{len(found.strategies)} strategies on {tasks}, {study.seeds} seeds each"
    return document(study.title, about, list(_sections(found, tables, seconds, text)))


def _sections(found: Compared, tables: Mapping[str, str], seconds: float, text: str) -> Iterator[tuple[str, str]]:
    yield "Result", _result(found)
    figures = "".join(f"{anytime(task, found.strategies)}{_numbers(task, found.strategies)}" for task in found.tasks)
    said = (
        "<p>Lines are medians over seeds, bars go from the first to the third quartile. Axes of evaluations are "
        "logarithmic.</p>"
    )
    yield "After so many evaluations", said + figures
    ranked = (
        "<p>Of each task and seed, strategies are ranked by what they found; 1 is the best. A bar joins strategies "
        f"that Wilcoxon's signed ranks over tasks and seeds, corrected by Holm, do not tell apart (p > {LEVEL:g}).</p>"
    )
    yield "Ranks and differences", ranked + "".join(_budget(one, found) for one in found.budgets)
    often = (
        "<p>How often a search of the row's strategy is better than one of the column's, with any seeds; equal ones "
        "count half. It is the mean over tasks.</p>"
    )
    yield "Probability of being better", often + "".join(_chances(one, found.strategies) for one in found.budgets)
    head = ("practice", "followed", "what is known")
    last = ""
    lines = []
    for one in practices(found, tables, seconds):
        lines += [f'<tr><th colspan="3">{escape(one.part)}</th></tr>'] if one.part != last else []
        lines.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in (one.what, one.answer, one.why))}</tr>")
        last = one.part
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    yield (
        "Checklist",
        (
            "<p>The best practices for NAS research of Lindauer and Hutter (2020), and the guidelines of the COSEAL "
            "network (Eimer et al. 2025), with what this study knows of them.</p>"
            f'<div class="scroll" tabindex="0"><table class="practices"><tr>{top}</tr>{"".join(lines)}</table></div>'
        ),
    )
    yield "Study", f'<pre tabindex="0">{escape(text)}</pre>'


def _result(found: Compared) -> str:
    fronts = any(task.distances for task in found.tasks)
    head = [
        "strategy",
        "task",
        "evaluations",
        "median",
        "quartiles",
        "mean",
        "standard error",
        *(["IGD"] if fronts else []),
    ]
    lines = []
    for row in rows(found):
        percent = next(task.percent for task in found.tasks if task.name == row["task"])
        said = {name: shown(value, percent) for name, value in row.items() if name in _VALUES}
        quartiles = f"{said['quartile_1']} to {said['quartile_3']}"
        cells = [row["strategy"], row["task"], f"{row['evaluations']:g}", said["median"], quartiles,
                 said["mean"], said["standard_error"]]  # fmt: skip
        igd = row["igd_median"]
        lines.append([*cells, *(["" if igd is None else f"{igd:.4f}"] if fronts else [])])
    best = "".join(
        f"<li>{escape(task.name)}: {shown(task.best, task.percent)}</li>" for task in found.tasks if not task.distances
    )
    known = f"<p>The best that the tables have:</p><ul>{best}</ul>" if best else ""
    return table(head, lines) + known


def shown(value: float | None, percent: bool) -> str:
    """A value in the units of its figure."""
    if value is None or value != value:
        return ""
    return f"{100 * value:.2f}%" if percent else f"{value:.5g}"


def _numbers(task: OnTask, names: Sequence[str]) -> str:
    """What a figure is drawn of, one click away."""
    lines = []
    for place, at in enumerate(task.at.tolist()):
        cells = [f"{at:g}"]
        for values in task.values:
            column = values[:, place][~np.isnan(values[:, place])]
            low, middle, high = np.percentile(column, [25, 50, 75]).tolist() if len(column) else [None] * 3
            ends = f" ({shown(low, task.percent)} to {shown(high, task.percent)})" if middle is not None else ""
            cells.append(shown(middle, task.percent) + ends)
        lines.append(cells)
    return _details(table(["evaluations", *names], lines))


def _budget(of: AtBudget, found: Compared) -> str:
    names = found.strategies
    lines = [
        [names[a], names[b], f"{of.ranks[a]:.2f}", f"{of.ranks[b]:.2f}", small(value)]
        for (a, b), value in sorted(of.corrected.items(), key=lambda one: one[1])
    ]
    head = ["one", "other", "mean rank of one", "of the other", "p after Holm"]
    alone = "" if len(names) > 1 else "<p>There is one strategy: nothing is compared.</p>"
    return alone + differences(of, names) + _details(table(head, lines))


def small(value: float) -> str:
    """A p-value."""
    return "less than 0.0001" if value < 1e-4 else f"{value:.4f}"


def _chances(of: AtBudget, names: Sequence[str]) -> str:
    lines = [[name, *(f"{100 * one:.1f}%" for one in row)] for name, row in zip(names, of.better, strict=True)]
    return f"<h3>After {of.budget:g} evaluations</h3>" + table(["", *names], lines)


def _details(content: str) -> str:
    return f"<details><summary>Numbers of this figure</summary>{content}</details>"


def table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """An HTML table whose first column is names."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><th>{escape(str(line[0]))}</th>{''.join(f'<td>{escape(str(cell))}</td>' for cell in line[1:])}</tr>"
        for line in lines
    )
    return f'<div class="scroll" tabindex="0"><table class="figures">{f"<tr>{top}</tr>{body}"}</table></div>'
