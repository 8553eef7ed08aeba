"""What each word of a text is, for colours that know what names mean."""

from __future__ import annotations

from archir.tools.lsp.view import View
from archir.tools.lsp.words import words

TYPES = (
    "keyword", "comment", "string", "number", "operator", "function", "class", "parameter", "variable", "property",
    "enumMember", "decorator", "namespace", "type", "method",
)  # fmt: skip
"""What words may be, in the terms of the protocol."""
MODIFIERS = ("definition", "readonly", "defaultLibrary")
_KINDS = {
    "block": "function",
    "cell": "function",
    "net": "class",
    "const": "variable",
    "parameter": "parameter",
    "input": "parameter",
    "variable": "variable",
    "output": "property",
    "property": "property",
    "attribute": "property",
    "operation": "method",
    "function": "function",
    "choice": "enumMember",
    "alternative": "enumMember",
    "alias": "namespace",
    "type": "type",
}
_WORDS = {"keyword": "keyword", "comment": "comment", "string": "string", "number": "number", "tag": "decorator"}
_OPERATORS = {"|>", "=>", "**", "//", "==", "!=", "<=", ">=", "..", "=", "+", "-", "*", "/", "%", "<", ">", "|"}

Token = tuple[int, int, str, tuple[str, ...]]
"""Where a word begins and ends, what it is, and what is true of it."""


def tokens(view: View) -> list[Token]:
    """The words of a text that have a colour, in its order."""
    meant = {one.start: one for one in view.occurrences}
    found: list[Token] = []
    for word in words(view.text):
        one = meant.get(word.start)
        if one is not None and one.kind in _KINDS:
            marks = ["definition"] if one.gives else []
            marks += ["readonly"] if one.kind == "const" else []
            marks += ["defaultLibrary"] if one.kind in ("operation", "function") else []
            found.append((word.start, word.end, _KINDS[one.kind], tuple(marks)))
        elif word.kind in _WORDS:
            found.append((word.start, word.end, _WORDS[word.kind], ()))
        elif word.text in _OPERATORS:
            found.append((word.start, word.end, "operator", ()))
    return found
