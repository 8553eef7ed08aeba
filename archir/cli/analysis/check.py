"""`archir check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir import api
from archir.base.errors import ArchError, Diagnostic
from archir.cli.options import file_argument, json_option, net_options
from archir.cli.output import complain, counted, emit, say
from archir.language.elaboration.context import Limits


@click.command("check")
@file_argument
@click.option("--lint", is_flag=True, help="Warn of what wrecks searches, too.")
@click.option(
    "--for", "purpose", type=click.Choice(["differentiable", "shared"]),
    help="How the space will be searched: by gradients, or by a supernet of single paths. Implies --lint.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings. Implies --lint.")
@net_options
@json_option
def check_command(
    file: str, lint: bool, purpose: Any, strict: bool, parameters: dict[str, Any], root: Path | None, limits: Limits,
    as_json: bool,
) -> None:  # fmt: skip
    """Prove every architecture of FILE well-formed, or say what is wrong.

    Every net is elaborated and every shape proved, for every reachable combination of choices.
    """
    warnings: list[Diagnostic] = []
    if lint or purpose or strict:
        graphs, warnings = api.linted(file, purpose=purpose, root=root, limits=limits, parameters=parameters)
    else:
        graphs = api.graphs(file, root=root, limits=limits, parameters=parameters)
    if as_json:
        nets = [{"net": g.name, "nodes": len(g), "choices": len(g.decisions)} for g in graphs]
        emit({"diagnostics": [warning.as_json() for warning in warnings], "nets": nets})
    else:
        if warnings:
            complain(ArchError(*warnings))
        for graph in graphs:
            size = f"{counted(len(graph), 'node')}, {counted(len(graph.decisions), 'choice')}"
            say(f"{file}: net {graph.name}: {size}: every architecture is well-formed")
        if not graphs:
            say(f"{file}: no nets; its names are fine")
    if strict and warnings:
        click.get_current_context().exit(1)
