"""Output of commands: results on standard output, problems and progress on standard error."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from archir.diagnostics.errors import ArchError, Diagnostic, Interrupted
from archir.diagnostics.escaping import escape_unprintable, rich_text
from archir.utils.counts import count_noun
from archir.utils.json_values import replace_nonfinite

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

ARGUMENTS = "archir.arguments"
"""Key of the command line's arguments in click's `Context.meta`."""
_STYLES: dict[str, dict[str, Any]] = {
    "place": {"bold": True},
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "message": {"bold": True},
    "caret": {"fg": "red"},
    "note": {"fg": "blue"},
    "hint": {"fg": "green"},
}


def has_colours(stream: IO[str]) -> bool:
    """Return True if a stream is a terminal and NO_COLOR is not set."""
    return not os.environ.get("NO_COLOR") and stream.isatty()


def render_diagnostics(diagnostics: Iterable[Diagnostic], colour: bool) -> str:
    """Return diagnostics as text, with terminal colours if `colour` is set."""
    styled = (
        "".join(
            click.style(text, **_STYLES[style]) if colour and style in _STYLES else text
            for style, text in diagnostic.styled_text()
        )
        for diagnostic in diagnostics
    )
    return "".join(styled)


def say(text: str, err: bool = False) -> None:
    """Print a message, with control characters escaped: text from files or models must not control the terminal."""
    click.echo(escape_unprintable(text), err=err)


def write(text: str) -> None:
    """Print requested content verbatim, as it would be written to a file.

    On a terminal, unprintable characters are escaped.
    """
    click.echo(escape_unprintable(text) if is_terminal() else text, nl=False, color=True)  # a file's own escapes stay


def write_text(text: str | bytes, output: Path | None, description: str) -> None:
    """Print a text, or write it to the file `output` if given and print a note of what was written.

    Bytes are the content of a file that is not text, and need an `output`.
    """
    if output is None:
        assert isinstance(text, str)
        write(text)
    else:
        from archir.utils.files import write_atomic

        write_atomic(output, text.encode() if isinstance(text, str) else text)
        say(f"wrote {output}: {description}")


def unified_diff_text(before: str, after: str, name: str, new: str) -> str:
    """Return the difference between two texts in the format of `diff -u`."""
    from difflib import unified_diff

    lines = unified_diff([*StringIO(before, newline="\n")], [*StringIO(after, newline="\n")], name, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def is_terminal() -> bool:
    """Return True if standard output is a terminal."""
    return sys.stdout.isatty()


def print_error(error: ArchError, as_json: bool = False) -> None:
    """Print the diagnostics of an error on standard error, or as JSON on standard output."""
    if as_json:
        emit({"diagnostics": [diagnostic.as_json() for diagnostic in error.diagnostics]})
        return
    click.echo(render_diagnostics(error.diagnostics, has_colours(sys.stderr)), err=True, nl=False)
    count = len(error.diagnostics)
    codes = sorted({diagnostic.code for diagnostic in error.diagnostics})
    word = "warning" if all(diagnostic.severity == "warning" for diagnostic in error.diagnostics) else "problem"
    click.echo(f"{count_noun(count, word)}; `archir explain {codes[0]}` says more", err=True)


@contextmanager
def resumable(command: Callable[[], str]) -> Iterator[None]:
    """Context manager that adds the command for resuming the work to the message of an `Interrupted` exception."""
    try:
        yield
    except Interrupted as stop:
        raise Interrupted(f"{stop}; resume it with `{command()}`") from None


def repeat_command(*more: str) -> str:
    """Return the current command line, extended by those options in `more` that it does not contain yet."""
    arguments = click.get_current_context().find_root().meta[ARGUMENTS]
    return shlex.join(["archir", *arguments, *(option for option in more if option not in arguments)])


def emit(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print JSON; infinite and NaN numbers, such as missing measurements, become null."""
    click.echo(json.dumps(replace_nonfinite(data), indent=2, default=str, allow_nan=False))


def console(stderr: bool = False) -> Console:
    """Return a rich console that respects NO_COLOR and, unless output is a terminal, does not wrap lines."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=not (sys.stderr if stderr else sys.stdout).isatty())


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[int] = (),
    droppable: Sequence[str] = (),
) -> None:
    """Print a table.

    `right` are the indices of right-aligned columns. If the table is too wide for the terminal, the columns named in
    `droppable` are dropped, in that order, until it fits, and a note on standard error names them.
    """
    from rich.measure import Measurement

    target, cells = console(), [[*map(rich_text, row)] for row in rows]
    for count in range(len(droppable) + 1):
        kept = [i for i, name in enumerate(columns) if name not in droppable[:count]]
        built = _build_table(title, [(columns[i], i in right) for i in kept], [[row[i] for i in kept] for row in cells])
        if Measurement.get(target, target.options.update(width=10_000), built).maximum <= target.width:
            break
    target.print(built)
    if dropped := [name for name in columns if name in droppable[:count]]:
        say(f"not shown, as the terminal is too narrow: {', '.join(dropped)} (--json has all columns)", err=True)


def _build_table(title: str, columns: Iterable[tuple[str, bool]], rows: Iterable[Sequence[Text]]) -> Table:
    """Build a rich table; `columns` are pairs of a name and whether the column is right-aligned."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    built = Table(title=rich_text(title) if title else None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name, right in columns:
        built.add_column(rich_text(name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        built.add_row(*row)
    return built
