"""`archir specialize`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from archir import api
from archir.api.progress import SearchProgress
from archir.cli.kinds import Place
from archir.cli.output import emit, repeated, resumable, say, table
from archir.recipes.results import NETWORKS
from archir.reuse.specializing import network_name, search_name
from archir.search.fronts.figures import measures, shown


@click.command("specialize")
@click.argument("run", type=Place())
@click.option(
    "--where", multiple=True, required=True, metavar="BOUNDS",
    help='What a network may cost, such as "macs <= 0.5x and params < 1M"; may be repeated.',
)  # fmt: skip
@click.option("-o", "--output", type=Place(file_okay=False, path_type=Path), required=True, help="Folder of the run.")
@click.option(
    "--trials", type=click.IntRange(1), default=100, show_default=True, help="Architectures that are tried for each."
)
@click.option("--samples", type=click.IntRange(1), help="Samples that each of them is scored on [all for validation].")
@click.option("--device", help="cpu, cuda, cuda:1, ... [a GPU where there is one]")
@click.option("--executor", help="Who scores: local, processes:4, ray, ray://HOST:PORT.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def specialize_command(
    run: str, where: tuple[str, ...], output: Path, trials: int, samples: int | None, device: str | None,
    executor: str | None, as_json: bool,
) -> None:  # fmt: skip
    """A network within each of some bounds, with the weights of the supernet that RUN trained.

    RUN is a folder of `archir search`, or FOLDER:PHASE. For each --where, an evolution scores architectures with the
    supernet's weights, on the samples that RUN kept for validation. The best one's weights are taken out, statistics of
    norms are measured anew, and the network is written as ONNX and verified. What is reported is measured on held-out
    samples, which nothing was chosen by. `0.5x` is half of what the costliest architecture of the space costs.

    OUTPUT is a run, too: the same command goes on with one that was stopped.
    """
    leads = os.environ.get("RANK", "0") == "0"
    with resumable(repeated), SearchProgress(output if leads else None) as watch:
        summary = api.specialize(
            run, where, output, trials=trials, samples=samples, device=device, executor=executor, watch=watch
        )
    if leads and as_json:
        emit(dict(summary))
    elif leads:
        _show(summary, where)


def _show(summary: Mapping[str, Any], bounds: Sequence[str]) -> None:
    """A line for each budget."""
    numbers = range(1, len(bounds) + 1)
    chosen = [measures(summary["phases"][search_name(number)], "validation_") for number in numbers]
    known = [summary["networks"][network_name(number)] for number in numbers]
    held_out = [{name: value for name, value in measures(one).items() if name not in _BESIDE} for one in known]
    cells = [["budget", *bounds]]
    for when, found in (("validation", chosen), ("held out", held_out)):
        for name in dict.fromkeys(key for one in found for key in one):
            figures = (shown(name, one[name]) if name in one else "" for one in found)
            cells.append([f"{name.replace('_', ' ')}, {when}", *figures])
    for name in ("params", "macs"):
        cells.append([name, *(f"{one[name]:,}" for one in known)])
    cells.append(["network", *map(network_name, numbers)])
    columns, *rows = zip(*cells, strict=True)
    table("", columns, rows, right=range(1, len(cells) - 1))
    say(f"networks: {summary['folder']}/{NETWORKS}/; report: {summary['folder']}/report.html")


_BESIDE = ("params", "macs", "epochs", "minutes")
