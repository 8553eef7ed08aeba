"""Errors in notebooks and at IPython's prompt: the call that was refused, and what was wrong, with carets."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archir.base.errors import ArchError, Diagnostic

_OWN = Path(__file__).resolve().parent.parent.parent
_STYLES = {
    "place": "1", "error": "1;31", "warning": "1;33", "message": "1", "caret": "31", "note": "34", "hint": "32",
}  # fmt: skip
"""The colours of terminals, which notebooks know, too."""


def rendered(self: ArchError) -> list[str]:
    """Lines for IPython, in place of the way through archir that nobody asked for: calls before it, and diagnostics."""
    return [*_calls(self), *coloured(self.diagnostics).rstrip("\n").split("\n"), _more(self.diagnostics)]


def _more(diagnostics: Iterable[Diagnostic]) -> str:
    codes = sorted({one.code for one in diagnostics})
    return f"`archir explain {codes[0]}` says more" if codes else ""


def _calls(error: ArchError) -> Iterator[str]:
    """The lines of somebody's own code that led here: those before archir's first one."""
    for frame in takewhile(_outside, traceback.extract_tb(error.__traceback__)):
        of_ipython = "IPython" in Path(frame.filename).parts or "run_cell_magic" in (frame.line or "")
        if frame.line and not of_ipython:
            yield f"{frame.name.replace('<module>', 'here')}, line {frame.lineno}: {frame.line}"


def _outside(frame: traceback.FrameSummary) -> bool:
    return not Path(frame.filename).is_relative_to(_OWN)


def coloured(diagnostics: Iterable[Diagnostic]) -> str:
    """Diagnostics as a terminal shows them."""
    pieces = (piece for one in diagnostics for piece in one.pieces())
    return "".join(_styled(text, _STYLES.get(style)) for style, text in pieces)


def _styled(text: str, style: str | None) -> str:
    line = text.rstrip("\n")
    return text if style is None else f"\x1b[{style}m{line}\x1b[0m{text[len(line) :]}"
