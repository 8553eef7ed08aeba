"""`archir check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from archir import api
from archir.api.loading import source
from archir.base.errors import ArchError, Diagnostic
from archir.base.files import write_atomic
from archir.base.work import anew
from archir.cli.analysis.sources import sources
from archir.cli.kinds import Place
from archir.cli.options import json_option, net_options
from archir.cli.output import complain, counted, emit, say, unified, write
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import split


@click.command("check")
@click.argument("paths", metavar="FILE[:NET]...", nargs=-1, required=True, type=Place())
@click.option("--lint", is_flag=True, help="Warn of what wrecks searches, too.")
@click.option(
    "--for", "purpose", type=click.Choice(["differentiable", "shared"]),
    help="How the space will be searched: by gradients, or by a supernet of single paths. Implies --lint.",
)  # fmt: skip
@click.option(
    "--fix", is_flag=True,
    help="Mend what can be mended first, and print what changed: `conv(8 8)` becomes `conv(8, 8)`, `batchnorm` "
    "`batch_norm`. A file is written only if fewer mistakes are left in it.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings. Implies --lint.")
@net_options
@json_option
def check_command(
    paths: tuple[str, ...], lint: bool, purpose: Any, fix: bool, strict: bool, parameters: dict[str, Any],
    root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Prove every architecture of every FILE well-formed, or say what is wrong.

    Every net is elaborated and every shape proved, for every reachable combination of choices. Of a folder, all .arch
    files are meant; what is wrong with one file does not keep the others from being checked.
    """
    if fix and "-" in paths:
        raise click.UsageError("--fix writes files: `-` is none")
    told: list[Diagnostic] = []
    nets: list[dict[str, Any]] = []
    for file in sources(paths, told):
        warnings: list[Diagnostic] = []
        try:
            if fix:
                _mend(file, root, limits, parameters, as_json)
            with anew():  # what one file takes is not missed by the next
                if lint or purpose or strict:
                    graphs, warnings = api.linted(
                        file, purpose=purpose, root=root, limits=limits, parameters=parameters
                    )
                else:
                    graphs = api.graphs(file, root=root, limits=limits, parameters=parameters)
        except ArchError as error:
            told += error.diagnostics
            continue
        told += warnings
        nets += [{"file": file, "net": g.name, "nodes": len(g), "choices": len(g.decisions)} for g in graphs]
        if not as_json:
            _tell(file, graphs)
    if as_json:
        emit({"diagnostics": [one.as_json() for one in told], "nets": nets})
    elif told:
        complain(ArchError(*told))
    if any(one.severity == "error" for one in told) or (strict and told):
        click.get_current_context().exit(1)


def _mend(file: str, root: Path | None, limits: Limits, parameters: dict[str, Any], silent: bool) -> None:
    """Mend a file on disk as far as that leaves fewer mistakes. Raises ArchError if it cannot be read."""
    from archir.api.editor.checking import Place as Named
    from archir.api.editor.fixing.repair import repaired

    path, net = split(file)
    text, folder = source(path)
    place = Named(path, folder, root, net, limits, parameters)
    repair = repaired(text, path, place.check, place.check_names)
    if not repair.changes:
        if repair.left and not silent:
            say(f"{path}: nothing was mended: no change that was tried leaves fewer mistakes")
        return
    write_atomic(Path(path).resolve(), repair.text.encode())
    if not silent:
        write(unified(text, repair.text, path, f"{path} (fixed)"))
        say(f"{path}: {'; '.join(change.title for change in repair.changes)}")


def _tell(file: str, graphs: Sequence[Graph]) -> None:
    for graph in graphs:
        size = f"{counted(len(graph), 'node')}, {counted(len(graph.decisions), 'choice')}"
        say(f"{file}: net {graph.name}: {size}: every architecture is well-formed")
    if not graphs:
        say(f"{file}: no nets; its names are fine")
