"""Layout and colours of help texts."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import click

from archir.cli.output import has_colours

_EXAMPLE = re.compile(r"(?m)^( +)(archir .*?)((?:  +.*)?)$")
"""Line of an example: indentation, command line, and what it does (after two or more spaces)."""


class ColouredFormatter(click.HelpFormatter):
    """Formatter that colours headings, names of commands and options, and examples, if the output is a terminal."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._style = click.style if has_colours(sys.stdout) else lambda text, **_: text

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line, with a bold `Usage:`."""
        super().write_usage(prog, args, self._style(prefix or "Usage:", bold=True) + " " * (prefix is None))

    def write_heading(self, heading: str) -> None:
        """Write a heading in bold."""
        self.write(f"{'':>{self.current_indent}}{self._style(f'{heading}:', bold=True)}\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write a list of names with descriptions, with coloured names."""
        super().write_dl([(self._style(name, fg="cyan"), text) for name, text in rows], col_max, col_spacing)

    def write_text(self, text: str) -> None:
        """Write paragraphs, with coloured examples."""
        start = len(self.buffer)
        super().write_text(text)
        self.buffer[start:] = (_EXAMPLE.sub(self._example, part) for part in self.buffer[start:])

    def _example(self, line: re.Match[str]) -> str:
        return f"{line[1]}{self._style(line[2], fg='green')}{self._style(line[3], dim=True)}"


class HelpContext(click.Context):
    """Context of archir's commands."""

    formatter_class = ColouredFormatter
