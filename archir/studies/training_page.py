"""HTML report of a study of trainings, as a single self-contained file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import sqrt
from statistics import mean, stdev

from archir.pages.charts import LineChart
from archir.pages.page import Html, details, page, table, verdict
from archir.runs.summaries import flat_settings
from archir.studies.training_results import (
    RESULT_HEAD,
    ArmResult,
    MeasuredRun,
    TrainingComparison,
    format_seconds,
    format_value,
    result_cells,
)
from archir.studies.trainings import TrainingStudy
from archir.utils.metrics import is_fraction

_RESULT_NOTE = (
    "<p>Differences are from the baseline <b>{}</b>, paired by seed: both runs of a pair have the same seed. Intervals "
    "cover 95% (paired t); p-values are of the paired t-test, with Holm's correction over arms; s.e. is the standard "
    "error of the mean. Differences of percentages are in points. Seconds are the mean wall time of a run. Figures are "
    "those of the last epoch of a phase: accuracy on held-out samples, validation accuracy on those that searches "
    "select by.</p>"
)
_CURVES_NOTE = "<p>Lines are means over the finished runs of an arm; bands show one standard error to each side.</p>"


def training_report(study: TrainingStudy, comparison: TrainingComparison, text: str) -> str:
    """Return the HTML report of a study; `text` is the study's TOML."""
    total = len(comparison.runs)
    state = f"{total} runs" if comparison.finished == total else f"{comparison.finished} of {total} runs are finished"
    about = f"{len(study.arms)} arms of {study.recipe}, {len(study.all_seeds)} seeds, {state}"
    return page(study.title, about, _sections(study, comparison, text))


def _sections(study: TrainingStudy, comparison: TrainingComparison, text: str) -> Iterator[tuple[str, str]]:
    tables = "".join(_result_table(name, results) for name, results in comparison.by_measure.items())
    yield "Result", _answers(comparison) + tables + _RESULT_NOTE.format(escape(comparison.baseline))
    yield "Arms", _arms(study, comparison.baseline)
    if any(result.verdict.startswith("undecided") for result in comparison.results):
        yield "What to do next", _more_seeds(study)
    charts = [chart for measure in study.measures if (chart := _curves(comparison.runs, measure.text))]
    if charts:
        yield "Curves", f'{_CURVES_NOTE}<div class="charts">{"".join(charts)}</div>'
    names = [measure.text for measure in study.measures]
    rows = (
        [
            run.name,
            run.state,
            *(format_value(name, run.values.get(name)) for name in names),
            format_seconds(run.seconds),
        ]
        for run in comparison.runs
    )
    yield "Runs", table(["run", "state", *names, "seconds"], rows)
    yield "Study", f'<pre tabindex="0">{escape(text)}</pre>'


def _arms(study: TrainingStudy, baseline: str) -> str:
    """Return a table of the settings in which the arms differ from the recipe, with those that all arms share apart."""
    settings = {arm: flat_settings(overrides) for arm, overrides in study.arms.items()}
    shared = set.intersection(*({*each.items()} for each in settings.values()))
    nothing = "only those of all arms" if shared else "the recipe as it is"
    rows = []
    for arm, each in settings.items():
        own = "; ".join(f"{key} = {value}" for key, value in each.items() if (key, value) not in shared)
        rows.append([f"{arm} (baseline)" if arm == baseline else arm, own or nothing])
    common = "; ".join(f"{key} = {value}" for key, value in sorted(shared))
    note = f"<p>All arms: {escape(common)}.</p>" if shared else ""
    return f"{table(['arm', 'settings'], rows, 'texts')}{note}"


def _more_seeds(study: TrainingStudy) -> str:
    count = len(study.all_seeds)
    counted = f"set <code>seeds = {4 * count}</code> in the study"
    listed = f"add {3 * count} seeds to the list <code>seeds</code> of the study"
    return (
        "<p>Intervals of undecided differences get about half as wide with four times as many seeds: "
        f"{counted if isinstance(study.seeds, int) else listed} and run the same command again. Finished runs are "
        "kept.</p>"
    )


def _answers(comparison: TrainingComparison) -> str:
    """Return the verdict on each arm's difference from the baseline, by each measure."""
    return "".join(
        verdict(
            f"<b>{escape(each.arm)}</b> - {escape(comparison.baseline)}, {escape(each.measured)}: "
            f"{escape(each.verdict)}.",
            "good" if each.verdict.startswith("apart") else "neutral",
        )
        for each in comparison.results
        if each.verdict
    )


def _result_table(measured: str, results: Sequence[ArmResult]) -> str:
    return f"<h3>{escape(measured)}</h3>{table(RESULT_HEAD, map(result_cells, results))}"


def _curves(runs: Sequence[MeasuredRun], measured: str) -> Html | None:
    """Return the chart of a metric by epoch, one line per arm, and its data; None if there is nothing to draw."""
    arms: dict[str, list[Mapping[int, float]]] = {}
    for run in runs:
        if curve := run.curves.get(measured):
            arms.setdefault(run.arm, []).append(curve)
    epochs = sorted({epoch for curves in arms.values() for curve in curves for epoch in curve})
    if len(epochs) < 2:
        return None
    lines: dict[str, list[float | None]] = {}
    errors: dict[str, list[float | None]] = {}
    for arm, curves in arms.items():
        columns = [[curve[epoch] for curve in curves if epoch in curve] for epoch in epochs]
        complete = [column if len(column) == len(curves) else [] for column in columns]
        lines[arm] = [mean(column) if column else None for column in complete]
        errors[arm] = [stdev(column) / sqrt(len(column)) if len(column) > 1 else None for column in complete]
    chart = LineChart(measured, epochs, lines, is_fraction(measured), margins=errors)
    rows = ([epoch, *(format_value(measured, line[i]) for line in lines.values())] for i, epoch in enumerate(epochs))
    return Html(f"<div>{chart.figure()}{details('Data of this figure', table(['epoch', *lines], rows))}</div>")
