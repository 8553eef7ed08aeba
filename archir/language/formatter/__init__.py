"""The one layout of a file: what `archir fmt` writes.

Tokens become words with the gaps between them, words a tree of brackets, that a document, and that lines. No token is
lost on the way, so that the meaning stays: all that is added and taken away are commas at the end of lists and commas
between alternatives.
"""

from __future__ import annotations

from archir.diagnostics.work import MOST_WORK, bounded
from archir.language.formatter.group import bracketed
from archir.language.formatter.layout import file
from archir.language.formatter.printer import render
from archir.language.formatter.tokens import words
from archir.language.syntax.parse import tokens

__all__ = ["canonical"]


def canonical(text: str, name: str = "<input>", most: float = MOST_WORK) -> str:
    """The text in the canonical layout. Raises ArchError (A01xx).

    Lines end with a newline alone, whatever they ended with, and a mark of byte order is left out. It may take so many
    units of work.
    """
    text = text.removeprefix("\ufeff")
    with bounded(most):
        found = tokens(text, name)
    last = max((token.end_pos or 0 for token in found if token.type != "_NL"), default=0)
    lines = render(file(bracketed(words(found, text), text[last:]))).lstrip("\n")
    return lines + "\n" if lines else ""
