"""Command `archir specialize`: derive a network for each of several budgets from a supernet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from archir.api import searching
from archir.api.progress import SearchProgress
from archir.cli.options import device_option
from archir.cli.output import emit, repeat_command, resumable, say, table
from archir.cli.param_types import Integer, PathParam
from archir.recipes.results import NETWORKS
from archir.reuse.specializing import network_name, search_name
from archir.utils.metrics import format_metric, select_measures


@click.command("specialize")
@click.argument("run", type=PathParam())
@click.option(
    "--where", multiple=True, required=True, metavar="BOUNDS",
    help='Cost budget of one network, such as "macs <= 0.5x and params < 1M". Repeat it for several networks.',
)  # fmt: skip
@click.option(
    "-o", "--output", type=PathParam(file_okay=False, path_type=Path), required=True, help="Folder of the run."
)
@click.option(
    "--trials",
    type=Integer(1),
    default=100,
    show_default=True,
    help="Architectures to evaluate for each budget.",
)
@click.option("--samples", type=Integer(1), help="Samples to score each architecture on [all validation samples].")
@device_option
@click.option(
    "--executor", metavar="EXECUTOR", help="Where to score architectures: local, processes:4, ray, ray://HOST:PORT."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def specialize_command(
    run: str, where: tuple[str, ...], output: Path, trials: int, samples: int | None, device: str | None,
    executor: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Derive a network for each --where budget, with the weights of the supernet that RUN trained.

    \b
    archir specialize runs/ofa --where "macs <= 0.5x" --where "macs <= 0.25x" -o runs/devices

    RUN is a folder written by `archir search`, or FOLDER:PHASE. For each --where, an evolutionary search scores
    architectures with the supernet's weights on the validation samples of RUN. The weights of the best architecture are
    extracted, its normalisation statistics are recalibrated, and the network is written as ONNX and verified. The
    reported figures are measured on held-out samples, which were never used for selection. `0.5x` means half of the
    cost of the most expensive architecture of the space.

    OUTPUT is a run folder as well: repeat the same command to resume an interrupted run.
    """
    is_main_process = os.environ.get("RANK", "0") == "0"
    with resumable(repeat_command), SearchProgress(output if is_main_process else None) as progress:
        summary = searching.specialize(
            run, where, output, trials=trials, samples=samples, device=device, executor=executor, progress=progress
        )
    if is_main_process and as_json:
        emit(dict(summary))
    elif is_main_process:
        _show(summary, where)


def _show(summary: Mapping[str, Any], bounds: Sequence[str]) -> None:
    """Print a table with one row per cost budget."""
    numbers = range(1, len(bounds) + 1)
    chosen = [select_measures(summary["phases"][search_name(number)], "validation_") for number in numbers]
    networks = [summary["networks"][network_name(number)] for number in numbers]
    held_out = [
        {name: value for name, value in select_measures(record).items() if name not in _NOT_MEASURES}
        for record in networks
    ]
    cells = [["budget", *bounds]]
    for when, records in (("validation", chosen), ("held out", held_out)):
        for name in dict.fromkeys(key for record in records for key in record):
            figures = (format_metric(name, record[name]) if name in record else "" for record in records)
            cells.append([f"{name.replace('_', ' ')}, {when}", *figures])
    for name in ("params", "macs"):
        cells.append([name, *(f"{record[name]:,}" for record in networks)])
    cells.append(["network", *map(network_name, numbers)])
    columns, *rows = zip(*cells, strict=True)
    table("", columns, rows, right=range(1, len(cells) - 1))
    say(f"networks: {summary['folder']}/{NETWORKS}/; report: {summary['folder']}/report.html")


_NOT_MEASURES = ("params", "macs", "epochs", "minutes")
"""Keys of a network's result record that are not measures."""
