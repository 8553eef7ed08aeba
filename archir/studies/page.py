"""HTML report of a study, as a single self-contained file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

import numpy as np

from archir.pages.page import details, page, table, verdict
from archir.studies.charts import anytime_chart, rank_diagram
from archir.studies.checklist import practices
from archir.studies.comparison import SIGNIFICANCE_LEVEL, BudgetResult, StudyComparison, TaskResult, result_rows
from archir.utils.counts import count_noun

_VALUE_COLUMNS = {"median", "quartile_1", "quartile_3", "mean", "standard_error"}
"""Columns of a result row whose values are in the units of the task's measure."""
_DATA = "Data of this figure"
_CURVES_NOTE = (
    "<p>Lines are medians over seeds; bars show the interquartile range. Seeds that have found nothing yet are left "
    "out; the data of each figure says how many have found something. The horizontal axes (evaluations) are "
    "logarithmic.</p>"
)
_RANKS_NOTE = (
    "<p>For each task and seed, strategies are ranked by their results; 1 is the best. A bar joins strategies "
    "without a significant difference by Wilcoxon's signed-rank test over tasks and seeds with Holm's correction "
    f"(p > {SIGNIFICANCE_LEVEL:g}).</p>"
)
_PROBABILITIES_NOTE = (
    "<p>Probability that a search of the row's strategy is better than one of the column's, over all pairs of seeds; "
    "ties count half. Mean over tasks.</p>"
)
_CHECKLIST_NOTE = (
    "<p>The best practices for NAS research of Lindauer and Hutter (2020), and the guidelines of the COSEAL network "
    "(Eimer et al. 2025), with the evidence of this study.</p>"
)


def study_report(comparison: StudyComparison, tables: Mapping[str, str], seconds: float, text: str) -> str:
    """Return the HTML report of a study.

    `text` is the study's TOML, `tables` are the hashes of the tables, and `seconds` is the total search time.
    """
    study = comparison.study
    tasks, seeds = count_noun(len(comparison.tasks), "task"), count_noun(study.seeds, "seed")
    about = f"{len(comparison.strategies)} strategies on {tasks}, {seeds} each"
    return page(study.title, about, _sections(comparison, tables, seconds, text))


def _sections(
    comparison: StudyComparison, tables: Mapping[str, str], seconds: float, text: str
) -> Iterator[tuple[str, str]]:
    names = comparison.strategies
    yield "Result", _result_section(comparison)
    seeds = comparison.study.seeds
    charts = "".join(anytime_chart(task, names) + _chart_numbers(task, names, seeds) for task in comparison.tasks)
    yield "Best found vs. number of evaluations", _CURVES_NOTE + charts
    yield "Ranks and differences", _RANKS_NOTE + "".join(_rank_section(each, names) for each in comparison.budgets)
    probabilities = "".join(_probability_table(each, names) for each in comparison.budgets)
    yield "Probability of being better", _PROBABILITIES_NOTE + probabilities
    groups = groupby(practices(comparison, tables, seconds), lambda practice: practice.part)
    head = ["practice", "followed", "evidence"]
    checklist = (
        f"<h3>{escape(part)}</h3>{table(head, ([each.what, each.answer, each.why] for each in group), 'practices')}"
        for part, group in groups
    )
    yield "Checklist", _CHECKLIST_NOTE + "".join(checklist)
    yield "Study", f'<pre tabindex="0">{escape(text)}</pre>'


def _result_section(comparison: StudyComparison) -> str:
    fronts = any(task.distances for task in comparison.tasks)
    head = [
        "strategy",
        "task",
        "evaluations",
        "seeds",
        "median",
        "quartiles",
        "mean",
        "standard error",
        *(["IGD"] if fronts else []),
    ]
    lines = []
    for row in result_rows(comparison):
        percent = next(task.percent for task in comparison.tasks if task.name == row["task"])
        formatted = {name: format_value(value, percent) for name, value in row.items() if name in _VALUE_COLUMNS}
        quartiles = f"{formatted['quartile_1']} to {formatted['quartile_3']}"
        cells = [row["strategy"], row["task"], f"{row['evaluations']:g}", format_seeds(row), formatted["median"],
                 quartiles, formatted["mean"], formatted["standard_error"]]  # fmt: skip
        igd = row["igd_median"]
        lines.append([*cells, *(["" if igd is None else f"{igd:.4f}"] if fronts else [])])
    best = "".join(
        f"<li>{escape(task.name)}: {format_value(task.best, task.percent)}</li>"
        for task in comparison.tasks
        if not task.distances
    )
    optimum_note = f"<p>Best values in the tables:</p><ul>{best}</ul>" if best else ""
    several = comparison.budgets if len(comparison.strategies) > 1 else []
    verdicts = "".join(_verdict(each, comparison.strategies) for each in several)
    return verdicts + table(head, lines) + optimum_note


def _verdict(budget: BudgetResult, names: Sequence[str]) -> str:
    """Return the strategy with the best mean rank at a budget, and those that are not significantly different."""
    best = min(range(len(names)), key=lambda strategy: budget.ranks[strategy])
    similar = [
        name for i, name in enumerate(names)
        if i != best and budget.p_values[min(i, best), max(i, best)] > SIGNIFICANCE_LEVEL
    ]  # fmt: skip
    rest = f"no significant difference from {', '.join(similar)}" if similar else "significantly better than all others"
    claim = f"<b>{escape(names[best])}</b> has the best mean rank, {budget.ranks[best]:.2f}; {escape(rest)}."
    return verdict(f"After {budget.budget:g} evaluations, {claim}", "neutral" if similar else "good")


def format_seeds(row: Mapping[str, Any]) -> str:
    """Format how many of the seeds have the values of a result row: "29 of 30"."""
    return f"{row['seeds']} of {row['planned']}"


def format_value(value: float | None, percent: bool) -> str:
    """Format a value in the units of its measure; "" for None and NaN."""
    if value is None or value != value:
        return ""
    return f"{100 * value:.2f}%" if percent else f"{value:.5g}"


def _chart_numbers(task: TaskResult, names: Sequence[str], seeds: int) -> str:
    """Return the data of a task's chart: medians and quartiles, and how many of the `seeds` have a value if not all."""
    lines = []
    for index, evaluations in enumerate(task.evaluations.tolist()):
        cells = [f"{evaluations:g}"]
        for values in task.values:
            column = values[:, index][~np.isnan(values[:, index])]
            texts = [f"{len(column)} of {seeds} seeds"] if len(column) < seeds else []
            if len(column):
                low, middle, high = (
                    format_value(x, task.percent) for x in np.percentile(column, [25, 50, 75]).tolist()
                )
                texts.insert(0, f"{middle} ({low} to {high})")
            cells.append("; ".join(texts))
        lines.append(cells)
    return details(_DATA, table(["evaluations", *names], lines))


def _rank_section(result: BudgetResult, names: Sequence[str]) -> str:
    lines = (
        [names[a], names[b], f"{result.ranks[a]:.2f}", f"{result.ranks[b]:.2f}", format_p_value(value)]
        for (a, b), value in sorted(result.p_values.items(), key=lambda item: item[1])
    )
    head = ["strategy A", "strategy B", "mean rank of A", "mean rank of B", "p (Holm-corrected)"]
    note = "" if len(names) > 1 else "<p>The study has only one strategy, so nothing is compared.</p>"
    return note + rank_diagram(result, names) + details(_DATA, table(head, lines))


def format_p_value(value: float) -> str:
    """Format a p-value."""
    return "less than 0.0001" if value < 1e-4 else f"{value:.4f}"


def _probability_table(result: BudgetResult, names: Sequence[str]) -> str:
    lines = (
        [name, *(f"{100 * probability:.1f}%" for probability in row)]
        for name, row in zip(names, result.win_probabilities, strict=True)
    )
    return f"<h3>After {result.budget:g} evaluations</h3>" + table(["", *names], lines)
