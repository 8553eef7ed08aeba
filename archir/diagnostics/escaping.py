"""Escaping of untrusted text before it is written to a terminal.

Control sequences, bidirectional overrides and other characters that do not print are written as escapes, so
that they can neither command the terminal nor hide text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text


def escape_unprintable(text: str) -> str:
    """Replace unprintable characters by Python's escape sequences; line breaks and tabs are kept."""
    return "".join(map(_escape, text)) if _needs_escaping(text) else text


def escape_to_line(text: str) -> str:
    """Replace unprintable characters, line breaks and tabs by escape sequences, so that the result is one line."""
    return escape_unprintable(text).replace("\t", r"\t").replace("\n", r"\n")


def rich_text(text: str) -> Text:
    """Return a text as a `rich.text.Text`, with unprintable characters escaped and markup not interpreted."""
    from rich.text import Text

    return Text(escape_unprintable(text))


def _needs_escaping(text: str) -> bool:
    return not text.isprintable() and any(not char.isprintable() for char in text.replace("\n", "").replace("\t", ""))


def _escape(char: str) -> str:
    if char.isprintable() or char in "\n\t" or (char.isspace() and ord(char) in _PLAIN_SPACES):
        return char
    return char.encode("unicode_escape").decode()


_PLAIN_SPACES = {0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000}
"""Code points of Unicode spaces that need no escape: they neither control the terminal nor reorder text."""
