"""Pygments lexer for `.arch` programs, for syntax highlighting in Sphinx, Jupyter and terminals.

It is registered under the entry point `pygments.lexers`, so that the language name "arch" works without
configuration. The keywords are read from the grammar.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace

from archir_grammar import keywords, parser

KINDS = {
    Keyword.Constant: ("true", "false", "none"),
    Keyword.Declaration: ("block", "cell", "const", "input", "net", "output", "own"),
    Keyword.Namespace: ("as", "import"),
    Operator.Word: ("and", "in", "not", "or"),
}
"""Pygments token type of keywords that are highlighted differently from plain keywords."""
PUNCTUATION = ("(", ")", ",", ".", "..", ":", "[", "]", "{", "}")
_TERMINAL_TYPES = {
    "COMMENT": Comment.Single, "STRING": String, "TAG": Name.Decorator, "FLOAT": Number.Float, "INT": Number.Integer,
}  # fmt: skip
"""Pygments token type by terminal, for terminals that are regular expressions."""


def _rules() -> Iterator[tuple[Any, Any]]:
    """Yield pairs of regular expression and Pygments token type, in the order in which they are tried."""
    terminals: dict[str, Any] = {terminal.name: terminal.pattern for terminal in parser(None).terminals}
    fixed = sorted({pattern.value for pattern in terminals.values() if pattern.type == "str"})
    yield r"\s+", Whitespace
    yield from ((terminals[name].to_regexp(), kind) for name, kind in _TERMINAL_TYPES.items())
    for kind, members in KINDS.items():
        yield words(sorted(keywords() & {*members}), prefix=r"\b", suffix=r"\b"), kind
    yield words(sorted(keywords()), prefix=r"\b", suffix=r"\b"), Keyword
    yield rf"{terminals['NAME'].to_regexp()}(?=[ \t]*\()", Name.Function
    yield terminals["NAME"].to_regexp(), Name
    yield words([word for word in fixed if word in PUNCTUATION]), Punctuation
    yield words([word for word in fixed if word not in (*keywords(), *PUNCTUATION)]), Operator
    yield from ((terminals[name].to_regexp(), Operator) for name in ("SIGN", "FACTOR"))
    yield r".", Text  # invalid programs are highlighted too


class ArchLexer(RegexLexer):
    """Pygments lexer for the archir language."""

    name = "arch"
    aliases: ClassVar[list[str]] = ["arch"]
    filenames: ClassVar[list[str]] = ["*.arch"]
    tokens: ClassVar[dict[str, Any]] = {"root": [*_rules()]}
