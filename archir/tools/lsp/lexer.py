"""Lexer that accepts any text, used by editor features and by fixes for programs that do not parse."""

from __future__ import annotations

import re
from dataclasses import dataclass

from archir_grammar import keywords

KEYWORDS = keywords()
"""Keywords of the language."""
_TOKEN = re.compile(
    r"(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[KMG]|[num]s)?\b|\d+)|"
    r"(?P<tag>@\w+)|(?P<string>\"[^\"\r\n]*\"?)|(?P<comment>#[^\r\n]*)|"
    r"(?P<sign>\|>|=>|\*\*|//|==|!=|<=|>=|\.\.|[^\s\w])"
)
"""Pattern that matches one token; the name of the group that matches is the token's kind."""


@dataclass(frozen=True)
class Token:
    """A token at offsets `start:end`; `kind` is "name", "keyword", "number", "tag", "string", "comment" or "sign"."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.start + len(self.text)


def tokenize(text: str, begin: int = 0, end: int | None = None) -> list[Token]:
    """Return the tokens of a text, or of the part between two offsets. Characters that fit no token are skipped."""
    tokens = []
    for match in _TOKEN.finditer(text, begin, len(text) if end is None else end):
        kind = str(match.lastgroup)
        kind = "keyword" if kind == "name" and match[0] in KEYWORDS else kind
        tokens.append(Token(kind, match[0], match.start()))
    return tokens


def code_tokens(text: str, begin: int = 0, end: int | None = None) -> list[Token]:
    """Return the tokens without comments."""
    return [token for token in tokenize(text, begin, end) if token.kind != "comment"]
