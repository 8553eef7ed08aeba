"""What commands print: text on standard output, problems and progress on standard error."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from math import isfinite
from typing import IO, TYPE_CHECKING, Any

import click

from archir.diagnostics.errors import ArchError, Diagnostic, Interrupted
from archir.diagnostics.visible import plain, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

ARGUMENTS = "archir.arguments"
"""Where the context of a command keeps the command line."""
_STYLES: dict[str, dict[str, Any]] = {
    "place": {"bold": True},
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "message": {"bold": True},
    "caret": {"fg": "red"},
    "note": {"fg": "blue"},
    "hint": {"fg": "green"},
}


def coloured(stream: IO[str]) -> bool:
    """Whether a stream shows colours: a terminal, unless NO_COLOR is set."""
    return not os.environ.get("NO_COLOR") and stream.isatty()


def rendered(diagnostics: Iterable[Diagnostic], colour: bool) -> str:
    """Diagnostics as text."""
    styled = (
        "".join(
            click.style(text, **_STYLES[style]) if colour and style in _STYLES else text for style, text in one.pieces()
        )
        for one in diagnostics
    )
    return "".join(styled)


def say(text: str, err: bool = False) -> None:
    """Print a message. What is in it from outside commands no terminal."""
    click.echo(visible(text), err=err)


def write(text: str) -> None:
    """Print what was asked for as it is, as a file would hold it; on a terminal, what does not print is shown."""
    click.echo(visible(text) if is_terminal() else text, nl=False, color=True)  # a file's own escapes stay


def unified(before: str, after: str, name: str, new: str) -> str:
    """What changes between two texts, as `diff -u` shows it."""
    from difflib import unified_diff

    lines = unified_diff([*StringIO(before, newline="\n")], [*StringIO(after, newline="\n")], name, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def is_terminal() -> bool:
    """Whether standard output is shown to somebody."""
    return sys.stdout.isatty()


def complain(error: ArchError, as_json: bool = False) -> None:
    """Print diagnostics: on standard error, or as JSON on standard output."""
    if as_json:
        emit({"diagnostics": [diagnostic.as_json() for diagnostic in error.diagnostics]})
        return
    click.echo(rendered(error.diagnostics, coloured(sys.stderr)), err=True, nl=False)
    count = len(error.diagnostics)
    codes = sorted({diagnostic.code for diagnostic in error.diagnostics})
    word = "warning" if all(diagnostic.severity == "warning" for diagnostic in error.diagnostics) else "problem"
    click.echo(f"{count} {word}{'s' if count > 1 else ''}; `archir explain {codes[0]}` says more", err=True)


@contextmanager
def resumable(command: Callable[[], str]) -> Iterator[None]:
    """Add the command that resumes interrupted work to the message of the interruption."""
    try:
        yield
    except Interrupted as stop:
        raise Interrupted(f"{stop}; resume it with `{command()}`") from None


def repeated(*more: str) -> str:
    """The command line as it was given, and options that it lacks."""
    given = click.get_current_context().find_root().meta[ARGUMENTS]
    return shlex.join(["archir", *given, *(one for one in more if one not in given)])


def emit(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print JSON; of numbers that it cannot hold, such as what was not measured, null."""
    click.echo(json.dumps(_finite(data), indent=2, default=str, allow_nan=False))


def _finite(data: Any) -> Any:
    match data:
        case float():
            return data if isfinite(data) else None
        case Mapping():
            return {name: _finite(value) for name, value in data.items()}
        case list() | tuple():
            return [_finite(value) for value in data]
    return data


def console(stderr: bool = False) -> Console:
    """A rich console that heeds NO_COLOR and is as wide as its terminal."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=not (sys.stderr if stderr else sys.stdout).isatty())


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Sequence[int] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print a table; `right` are the positions of right-aligned columns. Where it is too wide for the terminal, columns
    named in `spare` are left out, one after the other."""
    from rich.measure import Measurement

    to, cells = console(), [[*map(plain, row)] for row in rows]
    for count in range(len(spare) + 1):
        kept = [i for i, name in enumerate(columns) if name not in spare[:count]]
        made = _made(title, [(columns[i], i in right) for i in kept], [[row[i] for i in kept] for row in cells])
        if Measurement.get(to, to.options.update(width=10_000), made).maximum <= to.width:
            break
    to.print(made)


def _made(title: str, columns: Iterable[tuple[str, bool]], rows: Iterable[Sequence[Text]]) -> Table:
    """A table of columns, of which each has a name, and may be right-aligned."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(title=plain(title) if title else None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name, right in columns:
        made.add_column(plain(name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def big(number: int) -> str:
    """A number with separators, and its magnitude where that helps."""
    return (
        f"{number:,}" if number < 10**12 else f"{number:,} (about {number:.2e})" if number < 10**300 else f"{number:,}"
    )


def counted(number: int, what: str) -> str:
    """A number of things, such as `1 choice` or `2 choices`."""
    return f"{big(number)} {what}{'' if number == 1 else 's'}"
