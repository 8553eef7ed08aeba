"""Command `archir study`: compare search strategies on tabular benchmarks."""

from __future__ import annotations

import time
from pathlib import Path

import click

from archir.cli.options import force_option, json_option
from archir.cli.output import emit, repeat_command, resumable, say, table
from archir.cli.param_types import OutputFile, PathParam

MESSAGE_INTERVAL = 5.0
"""Minimum seconds between two progress messages."""


class _ProgressPrinter:
    """Callback that prints the number of finished searches, at most once every `MESSAGE_INTERVAL` seconds."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._last >= MESSAGE_INTERVAL:
            self._last = now
            say(f"{done:,} of {total:,} searches", err=True)


@click.command("study")
@click.argument("study", type=PathParam(dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=PathParam(file_okay=False, path_type=Path), help="Folder of the study [runs/NAME]. Searches "
    "that it already contains are not repeated.",
)  # fmt: skip
@click.option("--executor", help="Where to run the searches, overriding the study: local, processes:4, ray.")
@force_option
@click.option("--trials", type=OutputFile(), help="Write all trials to this file, .csv or .parquet.")
@json_option
def study_command(
    study: Path, output: Path | None, executor: str | None, trials: Path | None, as_json: bool
) -> None:  # fmt: skip
    """Compare search strategies on tabular benchmarks over many seeds and several budgets, as STUDY describes.

    \b
    archir study study.toml -o runs/study                      run all searches and write the report
    archir study study.toml -o runs/study                      again: run only missing or changed searches
    archir study study.toml --executor processes:2 --trials trials.parquet

    Writes report.html with statistical tests, results.csv, results.json and study.sqlite, which holds every search.
    """
    from archir.studies.comparison import result_rows
    from archir.studies.page import format_p_value, format_value
    from archir.studies.run import run_study
    from archir.studies.trial_export import FORMATS

    if trials is not None and trials.suffix not in FORMATS:
        raise click.UsageError(f"--trials is a file that ends in {' or '.join(FORMATS)}")
    folder = output or Path("runs") / study.stem
    with resumable(repeat_command):
        outcome = run_study(study, folder, _ProgressPrinter(), executor, trials)
    comparison = outcome.comparison
    if as_json:
        emit({"folder": str(folder), "results": list(result_rows(comparison)), "failed": list(outcome.failed.values())})
        return
    percent = {task.name: task.percent for task in comparison.tasks}
    cells = [
        [row["task"], f"{row['evaluations']:g}", row["strategy"], format_value(row["median"], percent[row["task"]]),
         f"{format_value(row['mean'], percent[row['task']])} "
         f"({format_value(row['standard_error'], percent[row['task']])})"]
        for row in result_rows(comparison)
    ]  # fmt: skip
    table("", ["task", "evaluations", "strategy", "median", "mean (standard error)"], cells, right=[1, 3, 4])
    for budget in comparison.budgets:
        order = sorted(range(len(comparison.strategies)), key=lambda i: budget.ranks[i])
        ranked = ", ".join(f"{comparison.strategies[i]} {budget.ranks[i]:.2f}" for i in order)
        say(f"mean ranks after {budget.budget:g} evaluations: {ranked}")
        undecided = [f"{comparison.strategies[a]} and {comparison.strategies[b]} ({format_p_value(p)})"
                for (a, b), p in budget.p_values.items() if p > 0.05]  # fmt: skip
        say(f"  no significant difference: {', '.join(undecided) if undecided else 'none'}")
    for task, text in outcome.outside.items():
        say(f"task {task}: {text}", err=True)
    for text in sorted(set(outcome.failed.values()))[:3]:
        say(f"searches that failed: {text}", err=True)
    say(f"report: {folder / 'report.html'}")
    if trials is not None:
        say(f"trials: {trials}")
