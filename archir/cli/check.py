"""`archir check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from archir import api
from archir.api.loading import source
from archir.cli.formats import Format, format_option, report
from archir.cli.kinds import Place
from archir.cli.options import net_options
from archir.cli.output import counted, say, unified, write
from archir.cli.sources import sources
from archir.cli.watching import watched
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagnostics.work import anew
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import split
from archir.utils.files import write_atomic


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
@click.option(
    "--watch", is_flag=True,
    help="Check again whenever a file changes, or one that it imports; Ctrl-C ends.",
)  # fmt: skip
@net_options
@format_option
def check_command(
    paths: tuple[str, ...], lint: bool, purpose: Any, fix: bool, strict: bool, watch: bool, parameters: dict[str, Any],
    root: Path | None, limits: Limits, form: Format,
) -> None:  # fmt: skip
    """Prove every architecture of every FILE well-formed, or say what is wrong.

    Every net is elaborated and every shape proved, for every reachable combination of choices. Of a folder, all .arch
    files are meant, but for those in hidden folders such as .venv; what is wrong with one file does not keep the others
    from being checked.
    """
    if fix and "-" in paths:
        raise click.UsageError("--fix writes files: `-` is none")

    def check() -> bool:
        checked = Checked()
        for file in sources(paths, checked.told):
            try:
                if fix:
                    _mend(file, root, limits, parameters, form != "text")
                graphs = checked.add(file, lint or bool(purpose) or strict, purpose, parameters, root, limits)
            except ArchError as error:
                checked.told += error.diagnostics
            else:
                if form == "text":
                    _tell(file, graphs)
        report(checked.told, form, checked.homes, {"nets": checked.nets})
        return any(one.severity == "error" for one in checked.told) or (strict and bool(checked.told))

    if watch:
        if fix or form != "text" or "-" in paths:
            raise click.UsageError("--watch shows people what is wrong with files: no --fix, no other --format, no `-`")
        watched(check, lambda: [*map(Path, sources(paths, []))])
    elif check():
        click.get_current_context().exit(1)


class Checked:
    """What was found of the files so far."""

    def __init__(self) -> None:
        self.told: list[Diagnostic] = []
        self.nets: list[dict[str, Any]] = []
        self.homes: list[Path] = []
        """Folders that names of imported files start from."""

    def add(
        self, file: str, lint: bool, purpose: Any, parameters: dict[str, Any], root: Path | None, limits: Limits
    ) -> Sequence[Graph]:
        """Check a file, and give the graphs of its nets. Raises ArchError."""
        self.homes.append(root or Path(split(file)[0]).parent)
        warnings: list[Diagnostic] = []
        with anew():  # what one file takes is not missed by the next
            if lint:
                graphs, warnings = api.linted(file, purpose=purpose, root=root, limits=limits, parameters=parameters)
            else:
                graphs = api.graphs(file, root=root, limits=limits, parameters=parameters)
        self.told += warnings
        self.nets += [{"file": file, "net": g.name, "nodes": len(g), "choices": len(g.decisions)} for g in graphs]
        return graphs


def _mend(file: str, root: Path | None, limits: Limits, parameters: dict[str, Any], silent: bool) -> None:
    """Mend a file on disk as far as that leaves fewer mistakes. Raises ArchError if it cannot be read."""
    from archir.tools.fixing.repair import repaired
    from archir.tools.lsp.checking import Place as Named

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
