"""`archir fmt`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from archir.base.errors import ArchError, Diagnostic
from archir.base.files import write_atomic
from archir.cli.analysis.sources import sources
from archir.cli.kinds import Place
from archir.cli.options import limit_option
from archir.cli.output import complain, say, unified, write
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import read
from archir.language.syntax.format import canonical


@click.command("fmt")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=Place())
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing to files; print what would change.")
@limit_option
def fmt_command(paths: tuple[str, ...], check: bool, diff: bool, limits: Limits) -> None:
    """Lay out every FILE canonically: spaces, indentation, line breaks and blank lines, in lines of 120 columns.

    Of a folder, all .arch files are meant; `-` reads standard input and prints. Meaning and comments stay as they are.
    A file that does not parse is left alone, and the others are still done.
    """
    if "-" in paths and len(paths) > 1:
        raise click.UsageError("`-` stands alone")
    changed = 0
    problems: list[Diagnostic] = []
    for file in sources(paths, problems):
        try:
            changed += _format(file, check, diff, limits.work)
        except ArchError as error:
            problems += error.diagnostics
    if problems:
        complain(ArchError(*problems))
    if problems or (check and changed):
        click.get_current_context().exit(1)


def _format(file: str, check: bool, diff: bool, most: float) -> bool:
    """Format one file; whether that changes it. Raises ArchError."""
    standard = file == "-"
    name = "<stdin>" if standard else file
    before = sys.stdin.read() if standard else read(Path(file))
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
