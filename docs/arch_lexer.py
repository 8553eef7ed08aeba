"""Colours for `.arch` programs in the built documentation."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

STATEMENTS = ("import", "as", "const", "own", "block", "cell", "net", "input", "output", "return", "require", "where")
CONTROL = ("choose", "of", "for", "in", "repeat", "if", "else", "match", "and", "or", "not")


class ArchLexer(RegexLexer):
    """The language of archir."""

    name = "arch"
    aliases: ClassVar[list[str]] = ["arch"]
    filenames: ClassVar[list[str]] = ["*.arch"]
    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Text),
            (r"#[^\n]*", Comment.Single),
            (r'"[^"\n]*"', String),
            (r"@\w+", Name.Decorator),
            (words(STATEMENTS, prefix=r"\b", suffix=r"\b"), Keyword.Declaration),
            (words(CONTROL, prefix=r"\b", suffix=r"\b"), Keyword),
            (words(("true", "false", "none"), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (r"\d[\d_]*\.\d+([eE][+-]?\d+)?([KMG]|[num]s)?|\d+[eE][+-]?\d+", Number.Float),
            (r"\d[\d_]*([KMG]|[num]s)?", Number.Integer),
            (r"\|>|\.\.|=>|\*\*|//|[=!<>]=|[-+*/%<>=|]", Operator),
            (r"[A-Za-z_]\w*(?=\s*\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"[\[\](){},:.]", Punctuation),
            (r".", Text),  # wrong programs are shown, too
        ]
    }
