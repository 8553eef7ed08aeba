"""Formatter for programs, with one canonical layout (`archir fmt`).

It has four passes, which convert tokens to words (tokens with the trivia, i.e. whitespace and comments, before them),
words to a bracket tree, the tree to a layout document, and the document to lines. No token is lost, so the program's
meaning is preserved. Only trailing commas in lists and commas between alternatives are added or removed.
"""

from __future__ import annotations

from archir.diagnostics.work import MAX_WORK, work_budget
from archir.language.formatter.doc import render
from archir.language.formatter.layout import file
from archir.language.formatter.tokens import bracket_tree, words
from archir.language.syntax.parse import tokens

__all__ = ["canonical"]


def canonical(text: str, name: str = "<input>", max_work: float = MAX_WORK) -> str:
    r"""Format a program text. Raises ArchError (A01xx) if it has syntax errors.

    Line ends become `\n`, and a byte order mark is removed. `max_work` is the work budget if no budget is active.
    """
    text = text.removeprefix("\ufeff")
    with work_budget(max_work):
        file_tokens = tokens(text, name)
    end = max((token.end_pos or 0 for token in file_tokens if token.type != "_NL"), default=0)
    lines = render(file(bracket_tree(words(file_tokens, text), text[end:]))).lstrip("\n")
    return lines + "\n" if lines else ""
