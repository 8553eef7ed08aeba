"""What notebooks ask of a value: all that it may be shown as."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from archir.base.errors import ArchError
from archir.base.visible import one_line

if TYPE_CHECKING:
    from archir.base.names.above import Shown


def html(self: Shown) -> str | None:
    """What it is as HTML: tables and pictures; None where its text says it all."""
    from archir.api.notebook.pages import page

    try:
        return page(self)
    except ArchError:  # of what cannot be counted or drawn, the text is shown
        return None


def bundle(self: Shown, include: Container[str] | None = None, exclude: Container[str] | None = None) -> dict[str, str]:
    """What it is as plain text and as HTML, of those that are to be included."""
    del include, exclude  # whoever asks leaves out what it does not want
    made = {"text/plain": "\n".join(map(one_line, repr(self).split("\n")))}
    shown = html(self)
    return made if shown is None else {**made, "text/html": shown}
