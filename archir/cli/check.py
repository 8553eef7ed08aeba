"""Command `archir check`: check that every architecture of the given files is valid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from archir.api import analysis, loading
from archir.api.loading import read_source
from archir.cli.arch_files import expand_paths
from archir.cli.diagnostic_formats import Format, format_option, report
from archir.cli.file_watcher import watch_files
from archir.cli.options import net_options
from archir.cli.output import say, unified_diff_text, write
from archir.cli.param_types import PathParam
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagnostics.work import fresh_budget
from archir.ir.graph import Graph
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import split_net
from archir.utils.counts import count_noun
from archir.utils.files import write_atomic


@click.command("check")
@click.argument("paths", metavar="FILE[:NET]...", nargs=-1, required=True, type=PathParam())
@click.option("--lint", is_flag=True, help="Also warn about patterns that make searches fail.")
@click.option(
    "--for", "purpose", type=click.Choice(["differentiable", "shared"]),
    help="How the space will be searched: by gradients (differentiable), or with a weight-sharing supernet that trains "
    "one path at a time (shared). Implies --lint.",
)  # fmt: skip
@click.option(
    "--fix", is_flag=True,
    help="Repair simple mistakes first and print the changes: `conv(8 8)` becomes `conv(8, 8)`, `batchnorm` becomes "
    "`batch_norm`. A file is written only if the changes leave fewer errors in it.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings. Implies --lint.")
@click.option(
    "--watch", is_flag=True,
    help="Check again whenever one of the files, or a file they import, changes. Press Ctrl-C to stop.",
)  # fmt: skip
@net_options
@format_option
def check_command(
    paths: tuple[str, ...], lint: bool, purpose: Any, fix: bool, strict: bool, watch: bool, parameters: dict[str, Any],
    root: Path | None, limits: Limits, form: Format,
) -> None:  # fmt: skip
    """Check that every architecture of every FILE is valid, and report errors.

    \b
    archir check space.arch --lint              also warn about what makes searches fail
    archir check . --format github              all .arch files of a folder, for GitHub Actions
    archir check space.arch --fix               repair simple mistakes

    Every net is elaborated, and its shapes are proved for every reachable combination of choices. Directories are
    searched recursively for .arch files; hidden directories such as .venv are skipped. An error in one file does not
    stop the others from being checked.
    """
    if fix and "-" in paths:
        raise click.UsageError("--fix changes files: it cannot be used with standard input (`-`)")

    def check() -> bool:
        checked = CheckResults()
        for file in expand_paths(paths, checked.diagnostics):
            try:
                if fix:
                    _fix_file(file, root, limits, parameters, form != "text")
                graphs = checked.add(file, lint or bool(purpose) or strict, purpose, parameters, root, limits)
            except ArchError as error:
                checked.diagnostics += error.diagnostics
            else:
                if form == "text":
                    _print_nets(file, graphs)
        report(checked.diagnostics, form, checked.import_roots, {"nets": checked.nets})
        return any(diagnostic.severity == "error" for diagnostic in checked.diagnostics) or (
            strict and bool(checked.diagnostics)
        )

    if watch:
        if fix or form != "text" or "-" in paths:
            raise click.UsageError("--watch cannot be combined with --fix, with a --format other than text or with `-`")
        watch_files(check, lambda: [*map(Path, expand_paths(paths, []))])
    elif check():
        click.get_current_context().exit(1)


class CheckResults:
    """Results of `archir check`, collected over all files."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.nets: list[dict[str, Any]] = []
        self.import_roots: list[Path] = []
        """Folders against which the names of imported files are resolved."""

    def add(
        self, file: str, lint: bool, purpose: Any, parameters: dict[str, Any], root: Path | None, limits: Limits
    ) -> Sequence[Graph]:
        """Check one file, record its warnings and nets, and return the graphs of its nets.

        Raises ArchError if the file has errors.
        """
        self.import_roots.append(root or Path(split_net(file)[0]).parent)
        warnings: list[Diagnostic] = []
        with fresh_budget():  # each file has a work budget of its own
            if lint:
                graphs, warnings = analysis.linted(
                    file, purpose=purpose, root=root, limits=limits, parameters=parameters
                )
            else:
                graphs = loading.graphs(file, root=root, limits=limits, parameters=parameters)
        self.diagnostics += warnings
        self.nets += [{"file": file, "net": g.name, "nodes": len(g), "choices": len(g.decisions)} for g in graphs]
        return graphs


def _fix_file(file: str, root: Path | None, limits: Limits, parameters: dict[str, Any], quiet: bool) -> None:
    """Apply automatic fixes to a file on disk if they reduce its number of errors.

    Raises ArchError if it cannot be read.
    """
    from archir.tools.fixing.repair import repair_text
    from archir.tools.lsp.checking import Checker as TextChecker

    path, net = split_net(file)
    text, folder = read_source(path)
    place = TextChecker(path, folder, root, net, limits, parameters)
    repair = repair_text(text, path, place.check, place.check_names)
    if not repair.changes:
        if repair.remaining and not quiet:
            say(f"{path}: nothing was fixed: none of the changes that were tried leaves fewer errors")
        return
    write_atomic(Path(path).resolve(), repair.text.encode())
    if not quiet:
        write(unified_diff_text(text, repair.text, path, f"{path} (fixed)"))
        say(f"{path}: {'; '.join(change.title for change in repair.changes)}")


def _print_nets(file: str, graphs: Sequence[Graph]) -> None:
    for graph in graphs:
        size = f"{count_noun(len(graph), 'node')}, {count_noun(len(graph.decisions), 'choice')}"
        say(f"{file}: net {graph.name}: {size}: every architecture is well-formed")
    if not graphs:
        say(f"{file}: no nets; its names are fine")
