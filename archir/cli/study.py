"""Command `archir study`: compare search strategies on tabular benchmarks, or variants of a recipe by training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from archir.api.progress import remaining
from archir.cli.options import SOURCES, force_option, json_option, parse_overrides, refuse
from archir.cli.output import emit, repeat_command, resumable, say, table
from archir.cli.param_types import OutputFile, PathParam
from archir.cli.search import RUNS
from archir.diagnostics.errors import join_names
from archir.recipes.plugins import import_named
from archir.utils.counts import count_noun

if TYPE_CHECKING:  # the command imports what it needs for its kind of study
    from archir.studies.study import Study
    from archir.studies.training_runs import TrainingOptions
    from archir.studies.trainings import TrainingStudy
    from archir.utils.toml import Document

MESSAGE_INTERVAL = 5.0
"""Minimum seconds between two progress messages."""


class _ProgressPrinter:
    """Callback that prints the number of finished searches or runs and the time left, at most once every
    `MESSAGE_INTERVAL` seconds."""

    def __init__(self, noun: str) -> None:
        self._noun, self._last = noun, 0.0
        self._first: tuple[float, int] | None = None
        """Time of the first call, and how many were finished then."""

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        began, before = self._first = self._first or (now, done)
        if done == total or now - self._last >= MESSAGE_INTERVAL:
            self._last = now
            left = remaining((now - began) / (done - before), total - done) if done > before else ""
            say(f"{done:,} of {total:,} {self._noun}{left}", err=True)


_TABLE_OPTIONS = ("trials",)
"""Options for studies of strategies only."""
_TRAINING_OPTIONS = ("settings", "data", "device", "smoke", "check", "results_only")
"""Options for studies of trainings only."""


@click.command("study")
@click.argument("study", type=PathParam(dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=PathParam(file_okay=False, path_type=Path), help="Folder of the study [runs/NAME]. Searches "
    "and runs that it already contains are not repeated.",
)  # fmt: skip
@click.option("--executor", metavar="EXECUTOR", help="Where to run, overriding the study: local, processes:4, ray.")
@force_option
@click.option("--trials", type=OutputFile(), help="Strategies: write all trials to this file, .csv or .parquet.")
@click.option("--data", metavar="SOURCE", help=f"Trainings: override the recipe's data.source in all arms: {SOURCES}.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Trainings: override a setting of the recipe in all "
    "arms that do not set it themselves.",
)  # fmt: skip
@click.option("--device", metavar="DEVICE", help="Trainings: cpu, cuda, cuda:1, ... [a GPU if available]")
@click.option("--smoke", is_flag=True, help="Trainings: try every arm with one seed and the settings of [smoke].")
@click.option("--check", is_flag=True, help="Trainings: check the recipe of every arm; run nothing.")
@click.option("--table", "results_only", is_flag=True, help="Trainings: run nothing; show what is finished.")
@json_option
def study_command(
    study: Path, output: Path | None, executor: str | None, trials: Path | None, data: str | None,
    settings: tuple[str, ...], device: str | None, smoke: bool, check: bool, results_only: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare search strategies on tabular benchmarks, or variants of a recipe by training, as STUDY describes.

    \b
    archir study study.toml -o runs/study                      run all and write the report
    archir study study.toml -o runs/study                      again: run only what is missing
    archir study strategies.toml --executor processes:2 --trials trials.parquet
    archir study trainings.toml --smoke                        every arm, for minutes
    archir study trainings.toml --table                        what is finished so far

    Writes report.html with statistical tests, results.csv and results.json. A study of strategies keeps its searches
    in study.sqlite; each training is a run of its own, ARM-seedN, which `archir runs` lists.
    """
    from archir.studies.study import read_study
    from archir.studies.trainings import TrainingStudy

    parsed, document = read_study(study)
    if not isinstance(parsed, TrainingStudy):
        refuse(_TRAINING_OPTIONS, "is for studies of trainings, which name a `recipe`")
        _compare_strategies(parsed, document, study, output or RUNS / study.stem, executor, trials, as_json)
        return
    refuse(_TABLE_OPTIONS, "is for studies of strategies on tables")
    if results_only and (smoke or check):
        raise click.UsageError("--table shows what is finished: leave out --smoke and --check")
    from archir.studies.training_runs import TrainingOptions

    if data is not None:
        import_named(data)
    options = TrainingOptions(parse_overrides(settings, data), executor, device, smoke)
    if check:
        _check_arms(parsed, document, study, options, as_json)
        return
    folder = output or RUNS / (f"{study.stem}-smoke" if smoke else study.stem)
    _compare_trainings(parsed, document, study, folder, options, results_only, as_json)


def _check_arms(
    study: TrainingStudy, document: Document, path: Path, options: TrainingOptions, as_json: bool
) -> None:  # fmt: skip
    """Check the recipe of every arm."""
    from archir.studies.training_runs import check_arms

    arms = check_arms(study, document, path, options)
    if as_json:
        emit({"arms": arms})
        return
    for arm, phases in arms.items():
        say(f"{arm}: {', '.join(phases)}")
    missing = {
        module for phases in arms.values() for phase in phases.values() for module in phase.get("not_looked_at", ())
    }
    if missing:
        say(f"not checked: parts that need {join_names(sorted(missing))}")
    say(f"{path} is valid: {count_noun(len(arms), 'arm')}, {count_noun(len(study.all_seeds), 'seed')}; nothing was run")


def _compare_trainings(
    study: TrainingStudy, document: Document, path: Path, folder: Path, options: TrainingOptions, results_only: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Run a study of trainings and print its results."""
    from archir.studies.training_results import RESULT_HEAD, result_cells
    from archir.studies.training_runs import run_trainings

    with resumable(repeat_command):
        outcome = run_trainings(study, document, path, folder, options, _ProgressPrinter("runs"), results_only)
    comparison = outcome.comparison
    if as_json:
        emit({"folder": str(folder), **comparison.as_json(), "failed": list(outcome.failed.values())})
        return
    for measured, results in comparison.by_measure.items():
        cells = [result_cells(each) for each in results]
        table(measured, RESULT_HEAD, cells, right=range(1, len(RESULT_HEAD)), droppable=["seconds"])
        for each in results:
            if each.verdict and not options.smoke:
                say(f"{each.arm} - {comparison.baseline}: {each.verdict}")
    if options.smoke:
        say("every arm was only tried, with one seed and the settings of [smoke]: these values do not compare the arms")
    for text in outcome.failed.values():
        say(f"run that failed: {text}", err=True)
    if outcome.busy:
        say(f"another process is running {join_names(outcome.busy)}", err=True)
    if comparison.finished < len(comparison.runs):
        say(f"{comparison.finished} of {len(comparison.runs)} runs are finished")
    if (folder / "report.html").exists():
        say(f"report: {folder / 'report.html'}")


def _compare_strategies(
    study: Study, document: Document, path: Path, folder: Path, executor: str | None, trials: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Run a study of strategies and print its results."""
    from archir.studies.comparison import SIGNIFICANCE_LEVEL, result_rows
    from archir.studies.page import format_p_value, format_seeds, format_value
    from archir.studies.run import run_study
    from archir.studies.trial_export import FORMATS

    if trials is not None and trials.suffix not in FORMATS:
        raise click.UsageError(f"--trials is a file that ends in {' or '.join(FORMATS)}")
    with resumable(repeat_command):
        outcome = run_study(study, document, path, folder, _ProgressPrinter("searches"), executor, trials)
    comparison = outcome.comparison
    if as_json:
        emit({"folder": str(folder), "results": list(result_rows(comparison)), "failed": list(outcome.failed.values())})
        return
    percent = {task.name: task.percent for task in comparison.tasks}
    cells = []
    for row in result_rows(comparison):
        median, mean, error = (
            format_value(row[name], percent[row["task"]]) for name in ("median", "mean", "standard_error")
        )
        mean_and_error = f"{mean} ({error})" if error else mean
        cells.append(
            [row["task"], f"{row['evaluations']:g}", row["strategy"], format_seeds(row), median, mean_and_error]
        )
    head = ["task", "evaluations", "strategy", "seeds", "median", "mean (standard error)"]
    table("", head, cells, right=[1, 3, 4, 5])
    for budget in comparison.budgets:
        order = sorted(range(len(comparison.strategies)), key=lambda i: budget.ranks[i])
        ranked = ", ".join(f"{comparison.strategies[i]} {budget.ranks[i]:.2f}" for i in order)
        say(f"mean ranks after {budget.budget:g} evaluations: {ranked}")
        undecided = [f"{comparison.strategies[a]} and {comparison.strategies[b]} ({format_p_value(p)})"
                for (a, b), p in budget.p_values.items() if p > SIGNIFICANCE_LEVEL]  # fmt: skip
        say(f"  no significant difference: {', '.join(undecided) if undecided else 'none'}")
    for task, text in outcome.outside.items():
        say(f"task {task}: {text}", err=True)
    for text in sorted(set(outcome.failed.values()))[:3]:
        say(f"searches that failed: {text}", err=True)
    say(f"report: {folder / 'report.html'}")
    if trials is not None:
        say(f"trials: {trials}")
