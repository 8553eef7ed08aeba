"""The words of a text that need not be a program: places, kinds and neighbours."""

from __future__ import annotations

import re
from dataclasses import dataclass

KEYWORDS = frozenset(
    [
        "and",
        "as",
        "block",
        "cell",
        "choose",
        "const",
        "else",
        "false",
        "for",
        "if",
        "import",
        "in",
        "input",
        "match",
        "net",
        "none",
        "not",
        "of",
        "or",
        "output",
        "own",
        "repeat",
        "require",
        "return",
        "true",
        "where",
    ]
)
_WORD = re.compile(
    r"(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[KMG]|[num]s)?\b|\d+)|"
    r"(?P<tag>@\w+)|(?P<string>\"[^\"\r\n]*\"?)|(?P<comment>#[^\r\n]*)|"
    r"(?P<sign>\|>|=>|\*\*|//|==|!=|<=|>=|\.\.|[^\s\w])"
)


@dataclass(frozen=True)
class Word:
    """A word `start:end` of a text: a name, keyword, number, tag, string, comment or sign."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


def words(text: str, begin: int = 0, end: int | None = None) -> list[Word]:
    """The words of a text, or of a part of it."""
    found = []
    for match in _WORD.finditer(text, begin, len(text) if end is None else end):
        kind = str(match.lastgroup)
        kind = "keyword" if kind == "name" and match[0] in KEYWORDS else kind
        found.append(Word(kind, match[0], match.start()))
    return found


def code_words(text: str, begin: int = 0, end: int | None = None) -> list[Word]:
    """The words but for comments."""
    return [word for word in words(text, begin, end) if word.kind != "comment"]
