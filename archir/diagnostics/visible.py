"""Text from outside on its way to a terminal: what would command it, or hide something, is spelled out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text


def visible(text: str) -> str:
    r"""A text in which characters that do not print are escapes: `\x1b`, `\u202e`. Lines and tabs stay."""
    return "".join(map(_visible, text)) if _odd(text) else text


def one_line(text: str) -> str:
    r"""A text as `visible` has it, in one line: ends of lines are escapes, too."""
    return visible(text).replace("\t", r"\t").replace("\n", r"\n")


def plain(text: str) -> Text:
    """A text that `rich` takes for nothing but text."""
    from rich.text import Text

    return Text(visible(text))


def _odd(text: str) -> bool:
    return not text.isprintable() and any(not char.isprintable() for char in text.replace("\n", "").replace("\t", ""))


def _visible(char: str) -> str:
    if char.isprintable() or char in "\n\t" or (char.isspace() and ord(char) in _SPACES):
        return char
    return char.encode("unicode_escape").decode()


_SPACES = {0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000}
"""Blanks that move nothing but what is behind them."""
