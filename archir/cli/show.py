"""`archir show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from archir import api
from archir.build.context import Limits
from archir.cli.options import arch_options, file_argument, net_options, picked
from archir.ir.serial import to_json
from archir.passes import PASSES, run


@click.command("show")
@file_argument
@click.option(
    "-P", "--pass", "passes", metavar="NAME,...", default="", help=f"Passes to run first: {', '.join(PASSES)}."
)
@click.option("--verify", is_flag=True, help="Check the graph after every pass.")
@click.option("--json", "as_json", is_flag=True, help="Print the graph as JSON.")
@arch_options
@net_options
def show_command(
    file: str, passes: str, verify: bool, as_json: bool, arch: str | None, seed: int | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits,
) -> None:  # fmt: skip
    """Print the graph of a net: the whole space, or one architecture of it (--arch, --seed)."""
    if arch is None and seed is None:
        graph = api.graph(file, root=root, limits=limits, parameters=parameters)
    else:
        graph, _, _ = picked(file, arch, seed, parameters, root, limits)
    graph = run(graph, [name.strip() for name in passes.split(",") if name.strip()], verify=verify)
    click.echo(json.dumps(to_json(graph), indent=1) if as_json else api.print_graph(graph).rstrip("\n"))
