"""`archir compare`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from archir.cli.kinds import Output, Place
from archir.cli.options import force_option, json_option
from archir.cli.output import emit, repeated, resumable, say, table

EVERY = 5.0
"""Seconds between two messages."""


class _Told:
    """Says how many searches are done, now and then."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - self._last >= EVERY:
            self._last = now
            say(f"{done:,} of {total:,} searches", err=True)


@click.command("compare")
@click.argument("study", type=Place(dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=Place(file_okay=False, path_type=Path), help="Folder of the study [runs/NAME]; if it has "
    "searches already, they are not made again.",
)  # fmt: skip
@click.option("--executor", help="Who searches, instead of whom the study names: local, processes:4, ray.")
@force_option
@click.option("--trials", type=Output(), help="Write all trials to this file, .csv or .parquet.")
@json_option
def compare_command(
    study: Path, output: Path | None, executor: str | None, trials: Path | None, as_json: bool
) -> None:  # fmt: skip
    """Compare strategies on tables of results, as STUDY says: many seeds, several budgets, tests of differences.

    \b
    archir compare study.toml -o runs/study                    all searches, and a page of what they came to
    archir compare study.toml -o runs/study                    again: what is missing, after a stop or a change
    archir compare study.toml --executor processes:2 --trials trials.parquet

    Left are report.html, results.csv, results.json and study.sqlite, which has every search.
    """
    from archir.studies.compared import rows
    from archir.studies.exported import FORMS
    from archir.studies.page import shown, small
    from archir.studies.run import run

    if trials is not None and trials.suffix not in FORMS:
        raise click.UsageError(f"--trials is a file that ends in {' or '.join(FORMS)}")
    folder = output or Path("runs") / study.stem
    with resumable(repeated):
        finished = run(study, folder, _Told(), executor, trials)
    found = finished.compared
    if as_json:
        emit({"folder": str(folder), "results": list(rows(found)), "failed": list(finished.failed.values())})
        return
    percent = {task.name: task.percent for task in found.tasks}
    cells = [
        [one["task"], f"{one['evaluations']:g}", one["strategy"], shown(one["median"], percent[one["task"]]),
         f"{shown(one['mean'], percent[one['task']])} ({shown(one['standard_error'], percent[one['task']])})"]
        for one in rows(found)
    ]  # fmt: skip
    table("", ["task", "evaluations", "strategy", "median", "mean (standard error)"], cells, right=[1, 3, 4])
    for at in found.budgets:
        order = sorted(range(len(found.strategies)), key=lambda i: at.ranks[i])
        ranked = ", ".join(f"{found.strategies[i]} {at.ranks[i]:.2f}" for i in order)
        say(f"mean ranks after {at.budget:g} evaluations: {ranked}")
        same = [f"{found.strategies[a]} and {found.strategies[b]} ({small(p)})"
                for (a, b), p in at.corrected.items() if p > 0.05]  # fmt: skip
        say(f"  not told apart: {', '.join(same) if same else 'none'}")
    for text in sorted(set(finished.failed.values()))[:3]:
        say(f"searches that failed: {text}", err=True)
    say(f"report: {folder / 'report.html'}")
    if trials is not None:
        say(f"trials: {trials}")
