"""Command `archir shrink`: shrink a trained network to a cost budget."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from archir.api.progress import SearchProgress
from archir.api.shrinking import shrink
from archir.cli.options import SEED, SOURCES, device_option, json_option, objective_settings
from archir.cli.output import emit, repeat_command, resumable, say, table
from archir.cli.param_types import Integer, Number, PathParam
from archir.diagnostics.work import MAX_THREADS
from archir.language.elastic.choice_values import KINDS
from archir.recipes.run_report import BEFORE_AND_AFTER
from archir.utils.metrics import format_metric


@click.command("shrink")
@click.argument("net", metavar="FILE[:NET]", type=PathParam())
@click.option(
    "--weights",
    type=PathParam(dir_okay=False, path_type=Path),
    required=True,
    help="Trained weights of the network (safetensors).",
)
@click.option(
    "--space", type=PathParam(), help="Space whose largest architecture is the network [opened from the network]."
)
@click.option(
    "--choose", default=",".join(KINDS), show_default=True, metavar="KINDS",
    help="Without --space: which numbers of the network become choices (docs/opening.md).",
)  # fmt: skip
@click.option(
    "--budget", multiple=True, required=True, metavar="BOUND",
    help='Cost limit of the smaller network: "macs <= 0.5x", "params < 1M"; may be repeated.',
)  # fmt: skip
@click.option(
    "--data",
    metavar="SOURCE",
    default="digits",
    show_default=True,
    help=f"Data set the network was trained on: {SOURCES}.",
)
@click.option(
    "--objective", metavar="OBJECTIVE", default="classification", show_default=True, callback=objective_settings,
    help="Training objective: a kind, or a TOML table of settings (docs/objectives.md).",
)  # fmt: skip
@click.option(
    "-o", "--output", type=PathParam(file_okay=False, path_type=Path), required=True, help="Folder of the run."
)
@click.option(
    "--refit", type=Integer(1), default=512, show_default=True,
    help="Number of samples used to fold removed channels into the remaining ones.",
)  # fmt: skip
@click.option(
    "--elastic", type=Integer(0), default=0, show_default=True,
    help="Epochs of supernet training, instead of folding removed channels.",
)  # fmt: skip
@click.option(
    "--epochs", type=Integer(1), default=10, show_default=True, help="Epochs of fine-tuning the smaller network."
)
@click.option("--trials", type=Integer(1), default=100, show_default=True, help="Number of architectures to evaluate.")
@click.option(
    "--min-budget-fraction", type=Number(0, 1), default=0.9, show_default=True,
    help="Minimum fraction of the budget that candidates must use, if enough candidates do; 0 disables it.",
)  # fmt: skip
@click.option("--samples", type=Integer(1), help="Samples to score each architecture on [all validation samples].")
@click.option("--lr", type=Number(0), default=1e-3, show_default=True, help="Largest learning rate.")
@click.option("--batch", type=Integer(1), default=64, show_default=True, help="Batch size.")
@click.option(
    "--order", default="energy", show_default=True, metavar="MEASURE",
    help="Importance measure that orders the channels; the least important ones are removed: energy, l1, ..., or none.",
)  # fmt: skip
@click.option(
    "--recalibrate",
    type=Integer(0),
    help="Batches for recalibrating normalisation statistics [4 in search, 16 for the result].",
)
@click.option(
    "--norms", type=click.Choice(["batch", "frozen"]), default="batch", show_default=True,
    help="Batch norms during fine-tuning: use batch statistics, or keep the running statistics frozen.",
)  # fmt: skip
@click.option(
    "--teach", type=click.Choice(["beside", "alone", "none"]), default="beside", show_default=True,
    help="Distillation from the original network: in addition to the targets (beside), instead of them (alone), or "
    "none.",
)  # fmt: skip
@click.option(
    "--temperature", type=Number(0), default=2.0, show_default=True,
    help="Distillation temperature; values above 1 soften the teacher's probabilities.",
)  # fmt: skip
@click.option(
    "--validation", type=Number(0, 1), default=0.1, show_default=True,
    help="Fraction of the training samples that is set aside to select architectures.",
)  # fmt: skip
@click.option("--shift", type=Integer(0), default=0, show_default=True, help="Shift images by up to N pixels.")
@click.option("--flip/--no-flip", default=False, show_default=True, help="Flip half of the images horizontally.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
@device_option
@click.option("--threads", type=Integer(1, MAX_THREADS), help="Number of CPU threads [torch's default].")
@click.option("--int8/--no-int8", default=True, show_default=True, help="Also quantize both networks to int8.")
@json_option
def shrink_command(
    net: str, weights: Path, space: str | None, choose: str, budget: tuple[str, ...], output: Path,
    device: str | None, int8: bool, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Shrink the trained network of FILE to a cost budget, reusing its weights.

    \b
    archir shrink net.arch --weights net.safetensors --budget "macs <= 0.5x" -o runs/half
    archir shrink net.arch --weights net.safetensors --space space.arch --budget "macs <= 1M" -o half

    Without --space, numbers of the network become choices, as with `archir open`. The phases are those of an ordinary
    run (`archir runs`, OUTPUT/recipe.toml): `full` measures the network, `shared` orders its channels by importance,
    `search` evaluates architectures within the budget, folding removed channels into the remaining ones, `cut` extracts
    the best one, and `tuned` fine-tunes it with the original network as teacher. Both networks are then benchmarked
    side by side. Repeat the same command to resume an interrupted run.
    """
    is_main_process = os.environ.get("RANK", "0") == "0"
    set_options = {name: value for name, value in settings.items() if value is not None}
    with resumable(repeat_command), SearchProgress(output if is_main_process else None) as progress:
        measures = shrink(
            net, weights, " and ".join(budget), output, space=space, choose=choose, settings=set_options, device=device,
            int8=int8, progress=progress, said=lambda text: say(text, err=True),
        )  # fmt: skip
    if is_main_process and as_json:
        emit(measures)
    elif is_main_process:
        _show(measures)
        say(f"the smaller network: {output}/networks/tuned/; figures: {output}/{BEFORE_AND_AFTER}")


def _show(measures: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a table of the measures of three networks: the full one, the extracted one, and the fine-tuned one."""
    columns = ["before", "cut", "after"]
    names = dict.fromkeys(name for when in columns for name in measures[when] if name not in _HIDDEN_MEASURES)
    rows = [
        [name.replace("_", " "), *(_format_value(name, measures[when].get(name)) for when in columns)] for name in names
    ]
    table("", ["", "before", "cut out", "tuned"], rows, right=(1, 2, 3))


_HIDDEN_MEASURES = {"onnx", "epoch", "epochs", "minutes", "loss", "distillation"}
"""Measures that the table leaves out, as they describe the training rather than the network."""


def _format_value(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return format_metric(name.removeprefix("int8_"), value) if isinstance(value, float) else str(value)
