"""Command `archir fmt`: format .arch files."""

from __future__ import annotations

from pathlib import Path

import click

from archir.cli.arch_files import expand_paths
from archir.cli.diagnostic_formats import Format, format_option, report
from archir.cli.options import limit_option
from archir.cli.output import say, unified_diff_text, write
from archir.cli.param_types import PathParam
from archir.diagnostics.errors import ArchError, Diagnostic, Source, Span
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import read_program, read_standard_input
from archir.language.file_kinds import require_kind
from archir.language.formatter import canonical
from archir.utils.files import write_atomic


@click.command("fmt")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=PathParam())
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing to files; print what would change.")
@limit_option
@format_option
def fmt_command(paths: tuple[str, ...], check: bool, diff: bool, limits: Limits, form: Format) -> None:
    """Format every FILE: spaces, indentation, line breaks and blank lines, with lines of at most 120 columns.

    \b
    archir fmt space.arch
    archir fmt . --check                        list the files that would change

    Directories are searched recursively for .arch files; `-` formats standard input and prints the result. Meaning and
    comments are preserved. A file that does not parse is left unchanged, and the other files are still formatted.
    """
    if "-" in paths and len(paths) > 1:
        raise click.UsageError("`-` cannot be combined with other files")
    if form != "text" and (diff or not check):
        raise click.UsageError(f"--format {form} lists the files that would change: it needs --check, without --diff")
    changed = 0
    problems: list[Diagnostic] = []
    for file in expand_paths(paths, problems):
        try:
            if form == "text":
                changed += _format(file, check, diff, limits.work)
            else:
                problems += _format_diagnostics(file, limits.work)
        except ArchError as error:
            problems += error.diagnostics
    report(problems, form)
    if problems or (check and changed):
        click.get_current_context().exit(1)


def _format_diagnostics(file: str, max_work: float) -> list[Diagnostic]:
    """Return a diagnostic at the first line that is not formatted; an empty result if all lines are.

    Raises ArchError if the file cannot be read or parsed.
    """
    name, before = _read(file)
    after = canonical(before, name, max_work)
    if before == after:
        return []
    source = Source(name, before)
    old, new = before.split("\n"), after.split("\n")
    shorter = min(len(old), len(new))
    line = next((line for line in range(shorter) if old[line] != new[line]), shorter - 1)
    start = source.line_starts[line]
    span = Span(source, start, start + len(source.line(line + 1)))
    return [Diagnostic("A1208", f"{name} would be reformatted", span, f"`archir fmt {file}` formats it")]


def _format(file: str, check: bool, diff: bool, max_work: float) -> bool:
    """Format one file; return True if its text changes. Raises ArchError if it cannot be read or parsed."""
    standard = file == "-"
    name, before = _read(file)
    after = canonical(before, name, max_work)
    if diff:
        write(unified_diff_text(before, after, name, f"{name} (formatted)"))
    elif standard and not check:
        write(after)
    elif before != after and check:
        say(f"{name}: would be reformatted")
    elif before != after:
        write_atomic(Path(file).resolve(), after.encode())
        say(f"{name}: reformatted")
    return before != after


def _read(file: str) -> tuple[str, str]:
    """Return the name of a file for messages, and its text."""
    if file == "-":
        return "<stdin>", read_standard_input()
    require_kind(Path(file), ".arch", "A0801")
    return file, read_program(Path(file))
