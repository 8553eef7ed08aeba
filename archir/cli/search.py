"""Command `archir search`: run or resume the search of a recipe."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from archir import backends
from archir.api.progress import SearchProgress
from archir.cli.options import SOURCES, device_option, parse_overrides
from archir.cli.output import console, emit, resumable, say, table
from archir.cli.param_types import PathParam
from archir.data.sources import module_of
from archir.diagnostics.errors import join_names
from archir.plugins import loading
from archir.recipes import plugins
from archir.recipes.plugins import import_named
from archir.runs import Run
from archir.runs.folder import SUMMARY
from archir.utils.counts import count_noun
from archir.utils.metrics import format_metric

RUNS = Path("runs")
"""Folder in which new runs are created, unless --output names one."""


@click.command("search")
@click.argument("recipe", required=False, type=PathParam(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=PathParam(file_okay=False, path_type=Path), help="Folder of the run [runs/NAME].")
@click.option("--resume", type=PathParam(file_okay=False, path_type=Path), help="Resume the run in this folder.")
@click.option("--fall-back", is_flag=True, help="With --resume: if a checkpoint is damaged, use the previous one.")
@click.option("--data", metavar="SOURCE", help=f"Override the recipe's data.source: {SOURCES}.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting of the recipe or of one of its phases.",
)
@device_option
@click.option(
    "--executor",
    metavar="EXECUTOR",
    help="Where to score candidates, overriding the phases: local, processes:4, ray, ray://HOST:PORT.",
)
@click.option("--check", is_flag=True, help="Dry run: check the recipe, spaces and data and list what would run.")
@click.option("--trust-code", is_flag=True, help="With --check: import the modules that the recipe names.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def search_command(
    recipe: Path | None, output: Path | None, resume: Path | None, fall_back: bool, data: str | None,
    settings: tuple[str, ...], device: str | None, executor: str | None, check: bool, trust_code: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run the architecture search of RECIPE, phase by phase, and write all results to a folder.

    \b
    archir search recipe.toml --check                            check without running
    archir search recipe.toml -o runs/darts                      start a new run
    archir search --resume runs/darts                            resume an interrupted run
    archir search --resume runs/x --set evolve.options.trials=9  add trials to a finished run
    archir search recipe.toml --set search.training.epochs=2     override a setting of a phase

    An interrupted run (also by Ctrl-C) can be resumed and ends with the same numbers. To use several GPUs or machines:
    torchrun --nproc-per-node 8 -m archir search RECIPE -o FOLDER.
    """
    if (recipe is None) == (resume is None):
        raise click.UsageError("name a recipe, or a run to --resume")
    if fall_back and resume is None:
        raise click.UsageError("--fall-back needs --resume")
    if resume is not None and output:
        raise click.UsageError("--resume continues in the folder of the run: -o is only for new runs")
    if resume is not None and (module := module_of(data)) is not None:
        loading.load_requested(module)
    overrides = parse_overrides(settings, data)
    if trust_code and not check:
        raise click.UsageError("--trust-code needs --check: a search always imports the modules its recipe names")
    if check:
        if recipe is None:
            raise click.UsageError("--check needs a recipe")
        if data is not None:
            import_named(data)
        phases = backends.get("torch").check_recipe(
            recipe, overrides=overrides, device=device, executor=executor, trust_code=trust_code
        )
        _show_check(recipe, phases, as_json)
        return
    folder = resume or output or _unused_folder(recipe or Path())
    is_main_process = os.environ.get("RANK", "0") == "0"
    summary = None if resume is None or fall_back or overrides else _finished_summary(resume)
    if summary is not None:
        say(f"{folder} is finished: nothing is left to do", err=True)
    else:
        with (
            resumable(lambda: plugins.resume_command(Run.open(folder))),
            SearchProgress(folder if is_main_process else None) as progress,
        ):
            summary = backends.get("torch").search(
                recipe, folder, resume=resume is not None, fall_back=fall_back, overrides=overrides, device=device,
                progress=progress, executor=executor,
            )  # fmt: skip
    if is_main_process and as_json:
        emit(dict(summary))
    elif is_main_process:
        _show(summary)


def _finished_summary(folder: Path) -> Mapping[str, Any] | None:
    """Return the summary of a run that has finished, else None."""
    run = Run.open(folder)
    summary: Mapping[str, Any] | None = json.loads(run.content(SUMMARY)) if run.finished else None
    return summary


def _unused_folder(recipe: Path) -> Path:
    """Return the path of a new folder below `runs/`, named after the recipe file and the recipe's folder."""
    parent = recipe.resolve().parent.name
    base = RUNS / (f"{parent}-{recipe.stem}" if parent else recipe.stem)
    names = chain([base], (Path(f"{base}-{i}") for i in count(2)))
    return next(path for path in names if not path.exists())


def _show_check(recipe: Path, phases: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    """Print the result of `--check`, one line per phase."""
    if as_json:
        emit({"phases": dict(phases)})
        return
    not_imported: dict[str, None] = {}
    for name, phase in phases.items():
        count = phase.get("architectures", 1)
        at_most = "at most " if phase.get("at_most") else ""
        among = f", {at_most}{count_noun(count, 'architecture')}" if count > 1 else ""
        if table := phase.get("results"):
            among += f"; table: {count_noun(table['architectures'], 'architecture')}"
            among += (
                f" ({table['outside']:,} of {table['rows']:,} rows are outside the space)" if table["outside"] else ""
            )
        missing_modules = phase.get("not_looked_at", ())
        not_imported |= dict.fromkeys(missing_modules)
        left_out = f"; not checked: parts that need {join_names(missing_modules)}" if missing_modules else ""
        say(f"{name}: {phase['strategy']}{', ' * ('space' in phase)}{phase.get('space', '')}{among}{left_out}")
    if not_imported:
        allow = " ".join(f"--plugin {module}" for module in not_imported)
        say(f"modules named by {recipe} were not imported: {allow} imports them, --trust-code imports all")
    verdict = "is valid" if not not_imported else "is valid as far as it was checked"
    say(f"{recipe} {verdict}: {count_noun(len(phases), 'phase')}; nothing was run")


def _show(summary: Mapping[str, Any]) -> None:
    """Print the summary of a search: measures per phase, Pareto fronts, files."""
    for name, row in summary["phases"].items():
        measure_names = [*summary.get("measures", {}).get(name, {}).get("measures", ()), "accuracy"]
        names = {*_SHOWN_COLUMNS, *measure_names, *(f"validation_{measure}" for measure in measure_names)} - {
            "validation_loss"
        }
        measures = [
            f"{key.replace('_', ' ')} {_format_value(key, value)}" for key, value in row.items() if key in names
        ]
        if measures:
            say(f"{name}: {', '.join(measures)}")
    for name, front in summary.get("fronts", {}).items():
        from archir.search.fronts import table as front_table
        from archir.search.objectives import objective

        console().print(
            front_table(front["front"], [objective(text) for text in front["objectives"]], f"front of `{name}`")
        )
        say(f"its architectures: {summary['folder']}/phases/{name}/front/")
    for name, measured in summary.get("latency", {}).items():
        _show_latency(name, measured)
    if "architecture" in summary:
        say(f"architecture of `{summary['architecture']['phase']}`: {summary['folder']}/best.json")
    if "network" in summary:
        network = summary["network"]
        say(f"network: {network['params']:,} parameters, {network['macs']:,} multiply-accumulates")
    if "onnx" in summary:
        say(f"ONNX: {summary['folder']}/model.onnx, largest difference to torch {summary['onnx']['relative']:.1e}")
    say(f"report: {summary['folder']}/report.html")


def _show_latency(phase: str, measured: Mapping[str, Any]) -> None:
    """Print the predicted and measured latency of a phase's best candidates, best first."""
    for bound in measured["bounds"]:
        if "not_measured" in bound:
            say(f"{phase}: candidates within {bound['bound']} were not measured: {bound['not_measured']}")
            continue
        candidates = zip(bound["predicted"], bound["measured"], bound["uncertainty"], strict=True)
        rows = [
            (
                f"{'*' if number == measured['chosen'] else ' '} {number + 1}",
                f"{predicted / 1000:,.1f}",
                f"{measured_ns / 1000:,.1f} ± {uncertainty / 1000:,.1f}",
            )
            for number, (predicted, measured_ns, uncertainty) in enumerate(candidates)
        ]
        table(f"`{phase}`: {bound['bound']}", ["candidate", "predicted, us", "measured, us"], rows, right=(1, 2))
        if any(speed != 1 for speed in bound["speed"]):
            ran = f"the machine ran at {fmean(bound['speed']):.2f} times its speed during the fit"
            say(f"{ran}, to which measured latencies are converted")
    if measured["chosen"] is None and measured["architectures"]:
        say(f"{phase}: the bound was not reached: no measured candidate is within it; the best candidate is kept")


_SHOWN_COLUMNS = ("epochs", "loss", "minutes")
"""Columns of a phase that are printed in addition to its measures."""


def _format_value(key: str, value: Any) -> str:
    return format_metric(key, value) if isinstance(value, float) else str(value)
