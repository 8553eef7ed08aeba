"""Semantic tokens of a text: the kind of each name, for syntax highlighting in editors."""

from __future__ import annotations

from archir.tools.lsp.lexer import tokenize
from archir.tools.lsp.view import View

TYPES = (
    "keyword", "comment", "string", "number", "operator", "function", "class", "parameter", "variable", "property",
    "enumMember", "decorator", "namespace", "type", "method",
)  # fmt: skip
"""Token types used here, as named by the LSP."""
MODIFIERS = ("definition", "readonly", "defaultLibrary")
"""Token modifiers used here, as named by the LSP."""
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
"""Semantic token type by kind of name."""
_TOKEN_TYPES = {"keyword": "keyword", "comment": "comment", "string": "string", "number": "number", "tag": "decorator"}
"""Semantic token type by kind of lexer token, for tokens that are not names."""
_OPERATORS = {"|>", "=>", "**", "//", "==", "!=", "<=", ">=", "..", "=", "+", "-", "*", "/", "%", "<", ">", "|"}
"""Sign tokens with the semantic type "operator"; brackets and commas have no semantic type."""

SemanticToken = tuple[int, int, str, tuple[str, ...]]
"""Semantic token: start offset, end offset, type and modifiers."""


def semantic_tokens(view: View) -> list[SemanticToken]:
    """Return the semantic tokens of a text, ordered by position."""
    by_start = {occurrence.start: occurrence for occurrence in view.occurrences}
    collected: list[SemanticToken] = []
    for token in tokenize(view.text):
        occurrence = by_start.get(token.start)
        if occurrence is not None and occurrence.kind in _KINDS:
            modifiers = ["definition"] if occurrence.is_definition else []
            modifiers += ["readonly"] if occurrence.kind == "const" else []
            modifiers += ["defaultLibrary"] if occurrence.kind in ("operation", "function") else []
            collected.append((token.start, token.end, _KINDS[occurrence.kind], tuple(modifiers)))
        elif token.kind in _TOKEN_TYPES:
            collected.append((token.start, token.end, _TOKEN_TYPES[token.kind], ()))
        elif token.text in _OPERATORS:
            collected.append((token.start, token.end, "operator", ()))
    return collected
