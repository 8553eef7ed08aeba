"""`archir check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir import api
from archir.build.context import Limits
from archir.cli.options import file_argument, json_option, net_options
from archir.cli.output import big, emit


@click.command("check")
@file_argument
@net_options
@json_option
def check_command(file: str, parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool) -> None:
    """Prove every architecture of FILE well-formed, or say what is wrong.

    Every net is elaborated and every shape proved, for every reachable combination of choices.
    """
    graphs = api.graphs(file, root=root, limits=limits, parameters=parameters)
    if as_json:
        nets = [{"net": g.name, "nodes": len(g), "choices": len(g.decisions)} for g in graphs]
        emit({"diagnostics": [], "nets": nets})
        return
    for graph in graphs:
        size = f"{big(len(graph))} nodes, {len(graph.decisions)} choices"
        click.echo(f"{file}: net {graph.name}: {size}: every architecture is well-formed")
    if not graphs:
        click.echo(f"{file}: no nets; its names are fine")
