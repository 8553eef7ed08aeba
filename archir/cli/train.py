"""Command `archir train`: train one network."""

from __future__ import annotations

import json
import os
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from archir import backends
from archir.api.progress import TrainingProgress
from archir.backends import weight_names
from archir.cli import train_folder
from archir.cli.net_arguments import select_network
from archir.cli.options import SEED, SOURCES, arch_options, device_option, net_options, objective_settings
from archir.cli.output import emit, repeat_command, resumable, say
from archir.cli.param_types import Integer, Number, PathParam
from archir.diagnostics.errors import ArchError, fail, join_names
from archir.diagnostics.work import MAX_THREADS
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.passes.cost import cost
from archir.recipes import external_files, plugins
from archir.recipes.parsing import recipe_of_run
from archir.recipes.recipe import Phase
from archir.recipes.spaces import space_of
from archir.runs import Run
from archir.runs.folder import SPACE, WEIGHTS
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.metrics import format_metric


def load_trial(folder: Path, trial_name: str) -> tuple[Graph, Architecture, Space, Phase]:
    """Return the graph, architecture, space and phase of a trial of the search in a folder.

    The trial is named by its number, `17`, or by `PHASE:17`. The returned phase includes the recipe's data settings.
    Raises ArchError: A1207 (no such trial, or several with this number), A18xx (the run is damaged).
    """
    run = Run.open(folder)
    phase, _, number = trial_name.rpartition(":")
    matches = [(p.name, t) for p in run.phases() for t in p.trials() if str(t.id) == number and phase in ("", p.name)]
    if len(matches) != 1:
        raise fail(
            "A1207",
            *_missing_trial_error(run, trial_name)
            if not matches
            else _ambiguous_trial_error(trial_name, [name for name, _ in matches]),
        )
    ((name, trial),) = matches
    recipe = recipe_of_run(run).recipe
    plugins.require_loaded(recipe)
    (settings,) = (candidate for candidate in recipe.phase if candidate.name == name)
    space = space_of(recipe, settings, folder / SPACE)
    architecture = space.architecture(trial.architecture)
    phase_with_data = settings.model_copy(update={"data": recipe.data_of(settings)})
    return space.specialize(architecture), architecture, space, phase_with_data


def _missing_trial_error(run: Run, trial_name: str) -> tuple[str, None, str]:
    """Return the arguments (message, None, hint) of the error for a trial that does not exist."""
    counts = {phase.name: len(phase.trials()) for phase in run.phases() if phase.trials()}
    id_ranges = [f"{name}:0 to {name}:{count - 1}" if count > 1 else f"{name}:0" for name, count in counts.items()]
    hint = f"there are {', '.join(id_ranges)}" if id_ranges else "no phase of this search has trials"
    return f"{run.folder} has no trial `{trial_name}`", None, hint


def _ambiguous_trial_error(number: str, phases: list[str]) -> tuple[str, None, str]:
    """Return the arguments (message, None, hint) of the error for a trial number that occurs in several phases."""
    names = join_names([f"{name}:{number}" for name in phases])
    return f"several phases have a trial `{number}`", None, f"name the phase: {names}"


@click.command("train")
@click.argument("file", metavar="[FILE[:NET]]", type=PathParam(), required=False)
@click.option("--data", metavar="SOURCE", default="digits", show_default=True, help=f"Data: {SOURCES}.")
@click.option(
    "--objective",
    metavar="OBJECTIVE",
    default="classification",
    show_default=True,
    callback=objective_settings,
    help="Training objective: a kind, or a TOML table of settings (docs/objectives.md).",
)
@click.option(
    "-o", "--output", type=PathParam(file_okay=False, path_type=Path), required=True, help="Folder of the run."
)
@click.option("--limit", type=Integer(), help="Maximum number of training samples, and of held-out samples [all].")
@click.option("--epochs", type=Integer(), default=20, show_default=True, help="Number of training epochs.")
@click.option("--batch", type=Integer(), default=64, show_default=True, help="Batch size.")
@click.option("--lr", type=Number(), default=2e-3, show_default=True, help="Largest learning rate.")
@click.option(
    "--optimizer",
    type=click.Choice(["adamw", "sgd"]),
    default="adamw",
    show_default=True,
    help="Optimizer of the weights.",
)
@click.option("--weight-decay", type=Number(), default=0.01, show_default=True, help="Weight decay of the optimizer.")
@click.option("--warmup", "warmup_epochs", type=Number(), default=1, show_default=True, help="Epochs of warm-up.")
@click.option(
    "--schedule", type=click.Choice(["cosine", "constant"]), default="cosine", show_default=True,
    help="Learning rate after the warm-up.",
)  # fmt: skip
@click.option("--label-smoothing", type=Number(), default=0.0, show_default=True, help="Amount of label smoothing.")
@click.option(
    "--precision", type=click.Choice(["auto", "float32", "bf16"]), default="auto", show_default=True,
    help="Number format of the computations.",
)  # fmt: skip
@click.option(
    "--augment/--no-augment",
    default=True,
    show_default=True,
    help="Randomly shift images by up to an eighth of their size.",
)
@click.option("--flip/--no-flip", default=False, show_default=True, help="Flip half of the images horizontally.")
@click.option(
    "--train-seed",
    type=SEED,
    default=0,
    show_default=True,
    help="Seed of initial weights, sample order and augmentation.",
)
@device_option
@click.option("--threads", type=Integer(1, MAX_THREADS), help="Number of CPU threads [torch's default].")
@click.option(
    "--weights",
    type=PathParam(path_type=Path),
    help="Initial weights: a safetensors file, or a folder written by `archir train` or `archir search`.",
)
@click.option(
    "--map", "names", type=PathParam(dir_okay=False, path_type=Path),
    help="Mapping from the network's weight names to those in the --weights file: TOML or JSON (archir explain A2220).",
)  # fmt: skip
@click.option(
    "--trial",
    type=(PathParam(file_okay=False, path_type=Path), str),
    metavar="RUN ID",
    help="Train a trial of a search instead of a FILE: runs/x 17, or runs/x PHASE:17 if several phases have trials.",
)
@click.option("--resume", is_flag=True, help="Resume an interrupted run.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@arch_options
@net_options
def train_command(
    file: str | None, data: str, output: Path, train_seed: int, device: str | None, threads: int | None,
    weights: Path | None, names: Path | None, trial: tuple[Path, str] | None, resume: bool, as_json: bool,
    arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None, limits: Limits, **settings: Any,
) -> None:  # fmt: skip
    """Train one network of FILE on a data set, and write a folder that `archir export` converts to ONNX.

    \b
    archir train net.arch --data cifar/ --epochs 50 -o runs/net
    archir train space.arch --arch best.json -o runs/best
    archir train --trial runs/search 17 -o runs/trial17
    archir train net.arch -o runs/net --resume

    The net, or the architecture selected by --arch, --seed or --trial, is trained from random weights, or from those of
    --weights. A checkpoint is written after every epoch; an interrupted run can be continued with --resume and ends
    with the same weights. To use several GPUs or machines: torchrun --nproc-per-node 8 -m archir train FILE -o FOLDER,
    with --batch samples in each process.
    """
    is_main_process = os.environ.get("RANK", "0") == "0"
    context = click.get_current_context()
    if (file is None) == (trial is None):
        raise click.UsageError("give either a FILE or a --trial of a run")
    if names is not None and weights is None:
        raise click.UsageError("--map needs --weights")
    if trial is not None:
        if arch is not None or seed is not None or parameters:
            raise click.UsageError("--trial already selects a network: --arch, --seed and -p need a FILE")
        graph, architecture, space, phase = load_trial(*trial)
        if _is_default(context, "data"):
            data = phase.data.source if phase.data is not None else data
        if _is_default(context, "objective"):
            settings["objective"] = phase.objective
    else:
        graph, architecture, space = select_network(file or "", arch, seed, parameters, root, limits)
    if is_main_process:
        train_folder.begin(output, graph, architecture.to_json(space.graph.parameters), resume)
    total = cost(graph)
    if is_main_process and not as_json:
        say(f"{space.name}: {total.params:,} parameters, {total.macs:,} multiply-accumulates", err=True)
    torch = backends.get("torch")
    begin = time.perf_counter()
    try:
        with (
            resumable(lambda: repeat_command("--resume")),
            _FolderProgress(output) if is_main_process else nullcontext() as progress,
        ):
            module, result = torch.train(
                graph,
                data=data,
                settings={**settings, "seed": train_seed},
                folder=output,
                resume=resume,
                device=device,
                progress=progress,
                start=weights and train_folder.weights_of(weights),
                names=None if names is None else weight_names.read(names),
                threads=threads,
            )
    except ArchError:
        if is_main_process:
            train_folder.discard(output)
        raise
    if not is_main_process:
        return
    earlier_data = [] if weights is None else external_files.trained_on(train_folder.weights_of(weights))
    provenance = (
        {} if earlier_data is None else {external_files.DATA_KEY: json.dumps([*dict.fromkeys([data, *earlier_data])])}
    )
    torch.save(module, output / WEIGHTS, {"net": graph.name, **provenance})
    facts = {
        **result.measures,
        "criterion": result.criterion,
        "larger": result.larger,
        "params": total.params,
        "macs": total.macs,
        "data": data,
        "settings": {**settings, "seed": train_seed},
        "images": result.images,
        "seconds": round(time.perf_counter() - begin, 1),
        "history": [epoch.figures for epoch in result.history],
    }
    train_folder.finish(output, facts)
    if as_json:
        emit({**facts, "folder": str(output)})
    else:
        held_out = ", ".join(f"{name} {format_metric(name, value)}" for name, value in result.shown.items())
        say(f"held-out {held_out}; for ONNX: archir export {output} -o net.onnx")


def _is_default(context: click.Context, option: str) -> bool:
    """Return True if an option has its default value because it was not given on the command line."""
    return context.get_parameter_source(option) is ParameterSource.DEFAULT


class _FolderProgress(TrainingProgress):
    """Progress bar of a training that also marks the training folder as unfinished when the first epoch starts."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def start(self, epochs: int, steps: int) -> None:
        """Mark the training as unfinished and start the bar.

        At this point, settings, data and checkpoint have passed their checks.
        """
        train_folder.mark_unfinished(self.folder)
        super().start(epochs, steps)
