"""Colours for `.arch` programs wherever Pygments gives them: Sphinx, Jupyter, consoles.

It is registered under `pygments.lexers`, so that "arch" is known without any configuration. What words there are is
said by the grammar.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text, Whitespace

from archir_grammar import parser

KINDS = {
    Keyword.Constant: ("true", "false", "none"),
    Keyword.Declaration: ("block", "cell", "const", "input", "net", "output", "own"),
    Keyword.Namespace: ("as", "import"),
    Operator.Word: ("and", "in", "not", "or"),
}
"""The words that are more than plain keywords."""
PUNCTUATION = ("(", ")", ",", ".", "..", ":", "[", "]", "{", "}")
_NAMED = {
    "COMMENT": Comment.Single, "STRING": String, "TAG": Name.Decorator, "FLOAT": Number.Float, "INT": Number.Integer,
}  # fmt: skip


def _rules() -> Iterator[tuple[Any, Any]]:
    """Regular expressions and what they match, in the order in which they are tried."""
    terminals: dict[str, Any] = {one.name: one.pattern for one in parser(None).terminals}
    fixed = sorted({pattern.value for pattern in terminals.values() if pattern.type == "str"})
    keywords = [word for word in fixed if word.isidentifier()]
    yield r"\s+", Whitespace
    yield from ((terminals[name].to_regexp(), kind) for name, kind in _NAMED.items())
    for kind, of in KINDS.items():
        yield words([word for word in keywords if word in of], prefix=r"\b", suffix=r"\b"), kind
    yield words(keywords, prefix=r"\b", suffix=r"\b"), Keyword
    yield rf"{terminals['NAME'].to_regexp()}(?=[ \t]*\()", Name.Function
    yield terminals["NAME"].to_regexp(), Name
    yield words([word for word in fixed if word in PUNCTUATION]), Punctuation
    yield words([word for word in fixed if word not in (*keywords, *PUNCTUATION)]), Operator
    yield from ((terminals[name].to_regexp(), Operator) for name in ("SIGN", "FACTOR"))
    yield r".", Text  # wrong programs are shown, too


class ArchLexer(RegexLexer):
    """The language of archir."""

    name = "arch"
    aliases: ClassVar[list[str]] = ["arch"]
    filenames: ClassVar[list[str]] = ["*.arch"]
    tokens: ClassVar[dict[str, Any]] = {"root": [*_rules()]}
