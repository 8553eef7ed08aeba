"""`archir fmt`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from archir.cli.formats import Format, format_option, report
from archir.cli.kinds import Place
from archir.cli.options import limit_option
from archir.cli.output import say, unified, write
from archir.cli.sources import sources
from archir.diagnostics.errors import ArchError, Diagnostic, Source, Span
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import read
from archir.language.formatter import canonical
from archir.language.kinds import require_kind
from archir.utils.files import write_atomic


@click.command("fmt")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=Place())
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing to files; print what would change.")
@limit_option
@format_option
def fmt_command(paths: tuple[str, ...], check: bool, diff: bool, limits: Limits, form: Format) -> None:
    """Lay out every FILE canonically: spaces, indentation, line breaks and blank lines, in lines of 120 columns.

    Of a folder, all .arch files are meant; `-` reads standard input and prints. Meaning and comments stay as they are.
    A file that does not parse is left alone, and the others are still done.
    """
    if "-" in paths and len(paths) > 1:
        raise click.UsageError("`-` stands alone")
    if form != "text" and (diff or not check):
        raise click.UsageError(f"--format {form} says which files would change: it goes with --check alone")
    changed = 0
    problems: list[Diagnostic] = []
    for file in sources(paths, problems):
        try:
            if form == "text":
                changed += _format(file, check, diff, limits.work)
            else:
                problems += _differences(file, limits.work)
        except ArchError as error:
            problems += error.diagnostics
    report(problems, form)
    if problems or (check and changed):
        click.get_current_context().exit(1)


def _differences(file: str, most: float) -> list[Diagnostic]:
    """What keeps a file from being laid out canonically, at the first place where it is not. Raises ArchError."""
    name, before = _read(file)
    after = canonical(before, name, most)
    if before == after:
        return []
    source = Source(name, before)
    old, new = before.split("\n"), after.split("\n")
    shorter = min(len(old), len(new))
    line = next((line for line in range(shorter) if old[line] != new[line]), shorter - 1)
    start = source.starts[line]
    span = Span(source, start, start + len(source.line(line + 1)))
    return [Diagnostic("A1208", f"{name} would be reformatted", span, f"`archir fmt {file}` lays it out")]


def _format(file: str, check: bool, diff: bool, most: float) -> bool:
    """Format one file; whether that changes it. Raises ArchError."""
    standard = file == "-"
    name, before = _read(file)
    after = canonical(before, name, most)
    if diff:
        write(unified(before, after, name, f"{name} (formatted)"))
    elif standard and not check:
        write(after)
    elif before != after and check:
        say(f"{name}: would be reformatted")
    elif before != after:
        write_atomic(Path(file).resolve(), after.encode())
        say(f"{name}: reformatted")
    return before != after


def _read(file: str) -> tuple[str, str]:
    """What a file is called, and its text."""
    if file == "-":
        return "<stdin>", sys.stdin.read()
    require_kind(Path(file), ".arch", "A0801")
    return file, read(Path(file))
