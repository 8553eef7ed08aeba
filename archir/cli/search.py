"""`archir search`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.api.progress import SearchProgress
from archir.cli.kinds import Place
from archir.cli.options import SOURCES
from archir.cli.output import console, counted, emit, resumable, say
from archir.data.sources import module_of
from archir.diagnostics.errors import listed
from archir.plugins import loading
from archir.recipes import plugins
from archir.recipes.plugins import import_named
from archir.runs import Run
from archir.search.fronts.figures import shown

RUNS = Path("runs")


@click.command("search")
@click.argument("recipe", required=False, type=Place(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=Place(file_okay=False, path_type=Path), help="Folder of the run [runs/NAME].")
@click.option("--resume", type=Place(file_okay=False, path_type=Path), help="Go on with the run in this folder.")
@click.option("--fall-back", is_flag=True, help="With --resume: give up a damaged checkpoint for the one before it.")
@click.option("--data", help=f"The recipe's data.source: {SOURCES}.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the recipe, or of a phase of it."
)
@click.option("--device", help="cpu, cuda, cuda:1, ... [a GPU where there is one]")
@click.option(
    "--executor", help="Who scores candidates, instead of whom phases name: local, processes:4, ray, ray://HOST:PORT."
)
@click.option("--check", is_flag=True, help="Check recipe, spaces and data, say what would be done, and do nothing.")
@click.option("--trust-code", is_flag=True, help="With --check: import the modules that the recipe names.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def search_command(
    recipe: Path | None, output: Path | None, resume: Path | None, fall_back: bool, data: str | None,
    settings: tuple[str, ...], device: str | None, executor: str | None, check: bool, trust_code: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run RECIPE, phase by phase, and leave a folder with everything that came of it.

    \b
    archir search examples/darts/digits.toml --check            whether it would run
    archir search examples/darts/digits.toml -o runs/darts      a new run
    archir search --resume runs/darts                           one that was stopped, from where it was
    archir search --resume runs/x --set evolve.options.trials=200     one that ended, with more trials
    archir search recipe.toml --set search.training.epochs=2    a setting of the phase `search`

    A run that is stopped, by Ctrl-C too, goes on where it was and ends with the same numbers. Several GPUs or machines:
    torchrun --nproc-per-node 8 -m archir search RECIPE -o FOLDER.
    """
    if (recipe is None) == (resume is None):
        raise click.UsageError("name a recipe, or a run to --resume")
    if fall_back and resume is None:
        raise click.UsageError("--fall-back goes with --resume")
    if resume is not None and output:
        raise click.UsageError("--resume continues in the folder of the run: -o is for new runs")
    if resume is not None and (module := module_of(data)) is not None:
        loading.asked(module)
    overrides = _overrides(settings) | (
        {"data.source": json.dumps(data, ensure_ascii=False)} if data is not None else {}
    )
    if trust_code and not check:
        raise click.UsageError("--trust-code goes with --check: a search imports what its recipe names")
    if check:
        if recipe is None:
            raise click.UsageError("--check goes with a recipe")
        if data is not None:
            import_named(data)
        found = backends.get("torch").check_recipe(
            recipe, overrides=overrides, device=device, executor=executor, trust_code=trust_code
        )
        _show_check(recipe, found, as_json)
        return
    folder = resume or output or _free(recipe or Path())
    leads = os.environ.get("RANK", "0") == "0"
    summary = None if resume is None or fall_back or overrides else _stored(resume)
    if summary is not None:
        say(f"{folder} is finished: nothing is left to do", err=True)
    else:
        with resumable(lambda: plugins.resuming(Run.open(folder))), SearchProgress(folder if leads else None) as watch:
            summary = backends.get("torch").search(
                recipe, folder, resume=resume is not None, fall_back=fall_back, overrides=overrides, device=device,
                watch=watch, executor=executor,
            )  # fmt: skip
    if leads and as_json:
        emit(dict(summary))
    elif leads:
        _show(summary)


def _stored(folder: Path) -> Mapping[str, Any] | None:
    """What a run came to, if it is finished."""
    run = Run.open(folder)
    found: Mapping[str, Any] | None = json.loads(run.content("summary.json")) if run.finished else None
    return found


def _overrides(settings: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
            raise click.UsageError(f"--set takes KEY=VALUE, such as search.training.epochs=2, not {setting!r}")
        found[key] = value
    return found


def _free(recipe: Path) -> Path:
    """A folder that is not there yet, named after the recipe and its folder."""
    parent = recipe.resolve().parent.name
    base = RUNS / (f"{parent}-{recipe.stem}" if parent else recipe.stem)
    names = chain([base], (Path(f"{base}-{i}") for i in count(2)))
    return next(path for path in names if not path.exists())


def _show_check(recipe: Path, phases: Mapping[str, Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        emit({"phases": dict(phases)})
        return
    unseen: dict[str, None] = {}
    for name, phase in phases.items():
        count = phase.get("architectures", 1)
        at_most = "at most " if phase.get("at_most") else ""
        among = f", {at_most}{counted(count, 'architecture')}" if count > 1 else ""
        lacking = phase.get("not_looked_at", ())
        unseen |= dict.fromkeys(lacking)
        left_out = f"; not looked at: what needs {listed(lacking)}" if lacking else ""
        say(f"{name}: {phase['strategy']}{', ' * ('space' in phase)}{phase.get('space', '')}{among}{left_out}")
    if unseen:
        allow = " ".join(f"--plugin {one}" for one in unseen)
        say(f"no module was imported that {recipe} names: {allow} allows it, --trust-code allows all")
    said = "is right" if not unseen else "is right as far as it was looked at"
    say(f"{recipe} {said}: {counted(len(phases), 'phase')}; nothing was run")


def _show(summary: Mapping[str, Any]) -> None:
    for name, row in summary["phases"].items():
        known = [*summary.get("measures", {}).get(name, {}).get("measures", ()), "accuracy"]
        names = {*_SHOWN, *known, *(f"validation_{one}" for one in known)} - {"validation_loss"}
        measures = [f"{key.replace('_', ' ')} {_text(key, value)}" for key, value in row.items() if key in names]
        if measures:
            say(f"{name}: {', '.join(measures)}")
    for name, found in summary.get("fronts", {}).items():
        from archir.search.fronts.listing import table
        from archir.search.objectives import objective

        console().print(table(found["front"], [objective(text) for text in found["objectives"]], f"front of `{name}`"))
        say(f"its architectures: {summary['folder']}/phases/{name}/front/")
    if "architecture" in summary:
        say(f"architecture of `{summary['architecture']['phase']}`: {summary['folder']}/best.json")
    if "network" in summary:
        network = summary["network"]
        say(f"network: {network['params']:,} parameters, {network['macs']:,} multiply-accumulates")
    if "onnx" in summary:
        say(f"ONNX: {summary['folder']}/model.onnx, largest difference to torch {summary['onnx']['relative']:.1e}")
    say(f"report: {summary['folder']}/report.html")


_SHOWN = ("epochs", "loss", "minutes")


def _text(key: str, value: Any) -> str:
    return shown(key, value) if isinstance(value, float) else str(value)
