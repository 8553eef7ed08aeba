"""`archir shrink`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from archir.api.progress import SearchProgress
from archir.api.shrinking import BEFORE_AND_AFTER, shrink
from archir.cli.kinds import Place, Real
from archir.cli.options import SEED, SOURCES, json_option, objective_settings
from archir.cli.output import emit, repeated, resumable, say, table
from archir.diagnostics.work import MOST_THREADS
from archir.language.elastic.ladders import KINDS
from archir.search.fronts.figures import shown


@click.command("shrink")
@click.argument("net", metavar="FILE[:NET]", type=Place())
@click.option(
    "--weights", type=Place(dir_okay=False, path_type=Path), required=True, help="Its trained weights: safetensors."
)
@click.option("--space", type=Place(), help="A space whose largest architecture is the net [the net is opened].")
@click.option(
    "--choose", default=",".join(KINDS), show_default=True, metavar="KINDS",
    help="What is opened of the net, without --space (docs/opening.md).",
)  # fmt: skip
@click.option(
    "--budget", multiple=True, required=True, metavar="BOUND",
    help='What it may cost: "macs <= 0.5x", "params < 1M"; may be repeated.',
)  # fmt: skip
@click.option("--data", default="digits", show_default=True, help=f"What it was trained on: {SOURCES}.")
@click.option(
    "--objective", default="classification", show_default=True, callback=objective_settings,
    help="What it was trained for: a kind, or a TOML table of settings (docs/objectives.md).",
)  # fmt: skip
@click.option("-o", "--output", type=Place(file_okay=False, path_type=Path), required=True, help="Folder of the run.")
@click.option(
    "--refit", type=click.IntRange(1), default=512, show_default=True,
    help="Samples by which what is left out is merged into what is kept.",
)  # fmt: skip
@click.option(
    "--elastic", type=click.IntRange(0), default=0, show_default=True,
    help="Epochs in which the space's weights are trained, in place of merging.",
)  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), default=10, show_default=True, help="Epochs of what was found.")
@click.option("--trials", type=click.IntRange(1), default=100, show_default=True, help="Architectures that are tried.")
@click.option(
    "--use", type=Real(0, 1), default=0.9, show_default=True,
    help="Part of the budget that they cost at least, where enough do; with 0, any are tried.",
)  # fmt: skip
@click.option("--samples", type=click.IntRange(1), help="Samples that each is scored on [all for validation].")
@click.option("--lr", type=Real(0), default=1e-3, show_default=True, help="Largest learning rate.")
@click.option("--batch", type=click.IntRange(1), default=64, show_default=True, help="Samples in a step.")
@click.option(
    "--order", default="energy", show_default=True, metavar="MEASURE",
    help="By what importance channels are ordered before the last ones are left out: energy, l1, ..., or none.",
)  # fmt: skip
@click.option(
    "--recalibrate", type=click.IntRange(0), help="Batches on which norms are measured anew [4 to search, 16 to cut]."
)
@click.option(
    "--norms", type=click.Choice(["batch", "frozen"]), default="batch", show_default=True,
    help="Whether batch norms keep their statistics while what was found is trained.",
)  # fmt: skip
@click.option(
    "--teach", type=click.Choice(["beside", "alone", "none"]), default="beside", show_default=True,
    help="Whether the net teaches what becomes of it: beside the data's targets, in place of them, or not.",
)  # fmt: skip
@click.option(
    "--temperature", type=Real(0), default=2.0, show_default=True,
    help="Of what it teaches: above 1, more is said of classes that are not likely.",
)  # fmt: skip
@click.option(
    "--validation", type=Real(0, 1), default=0.1, show_default=True,
    help="The part of the training samples that architectures are chosen by.",
)  # fmt: skip
@click.option("--shift", type=click.IntRange(0), default=0, show_default=True, help="Shift images by up to N pixels.")
@click.option("--flip/--no-flip", default=False, show_default=True, help="Mirror half of the images.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of everything that is drawn.")
@click.option("--device", help="cpu, cuda, cuda:1, ... [a GPU where there is one]")
@click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="Threads of the CPU [as many as torch takes].")
@click.option("--int8/--no-int8", default=True, show_default=True, help="Write both networks in int8, too.")
@json_option
def shrink_command(
    net: str, weights: Path, space: str | None, choose: str, budget: tuple[str, ...], output: Path,
    device: str | None, int8: bool, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Make the trained network of FILE smaller, and keep what it knows.

    \b
    archir shrink net.arch --weights net.safetensors --budget "macs <= 0.5x" -o runs/half
    archir shrink net.arch --weights net.safetensors --space space.arch --budget "macs <= 0.5x" -o runs/half

    Without --space, numbers of the net become choices, as `archir open` says. The phases are those of an ordinary run
    (`archir runs`, OUTPUT/recipe.toml): `full` measures the network, `shared` orders its channels, `search` tries
    architectures within the budget, with what they leave out merged into what they keep, `cut` takes the best one out,
    `tuned` trains it on with the network for a teacher. Then both are measured side by side. The same command goes on
    with a run that was stopped.
    """
    leads = os.environ.get("RANK", "0") == "0"
    given = {name: value for name, value in settings.items() if value is not None}
    with resumable(repeated), SearchProgress(output if leads else None) as watch:
        found = shrink(
            net, weights, " and ".join(budget), output, space=space, choose=choose, settings=given, device=device,
            int8=int8, watch=watch, said=lambda text: say(text, err=True),
        )  # fmt: skip
    if leads and as_json:
        emit(found)
    elif leads:
        _show(found)
        say(f"the smaller network: {output}/networks/tuned/; figures: {output}/{BEFORE_AND_AFTER}")


def _show(found: Mapping[str, Mapping[str, Any]]) -> None:
    """A line for each figure, of the full network, of what was cut out, and of what became of it."""
    columns = ["before", "cut", "after"]
    names = dict.fromkeys(name for when in columns for name in found[when] if name not in _LEFT_OUT)
    rows = [[name.replace("_", " "), *(_text(name, found[when].get(name)) for when in columns)] for name in names]
    table("", ["", "before", "cut out", "tuned"], rows, right=(1, 2, 3))


_LEFT_OUT = {"onnx", "epoch", "epochs", "minutes", "loss", "distillation"}
"""Figures that say something of training."""


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return shown(name.removeprefix("int8_"), value) if isinstance(value, float) else str(value)
