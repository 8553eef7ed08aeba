"""Format a program in the one canonical layout, as `archir fmt` does.

Four passes: tokens to words with the gaps between them, words to a tree of brackets, the tree to a document, the
document to lines. No token is lost, so that the meaning stays. The only tokens that are added or removed are commas at
the end of lists and commas between alternatives.
"""

from __future__ import annotations

from archir.diagnostics.work import MAX_WORK, work_budget
from archir.language.formatter.bracket_tree import bracket_tree
from archir.language.formatter.layout import file
from archir.language.formatter.printer import render
from archir.language.formatter.tokens import words
from archir.language.syntax.parse import tokens

__all__ = ["canonical"]


def canonical(text: str, name: str = "<input>", max_work: float = MAX_WORK) -> str:
    """Return the text in the canonical layout. Raises ArchError (A01xx) if it has syntax errors.

    Line ends become `\\n`, and a byte order mark is removed. `max_work` is the work budget if none is set.
    """
    text = text.removeprefix("\ufeff")
    with work_budget(max_work):
        file_tokens = tokens(text, name)
    end = max((token.end_pos or 0 for token in file_tokens if token.type != "_NL"), default=0)
    lines = render(file(bracket_tree(words(file_tokens, text), text[end:]))).lstrip("\n")
    return lines + "\n" if lines else ""
