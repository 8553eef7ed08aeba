"""Builds a tree of brackets from the words of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from archir.language.formatter.tokens import Word


@dataclass
class Part:
    """Statement, alternative or list element.

    It consists of its pieces and of `before`, the trivia (whitespace and comments) before the first piece.
    """

    before: str = ""
    pieces: list[Piece] = field(default_factory=list)


@dataclass
class Bracket:
    """Bracket pair with the parts inside. `end` is the trivia (whitespace and comments) before the closing word
    `closed_by`."""

    opened_by: Word
    parts: list[Part] = field(default_factory=list)
    end: str = ""
    closed_by: str = ""
    trailing_comma: bool = False
    comprehension: bool = False

    @property
    def role(self) -> str:
        """Role of the bracket; see `Word`."""
        return self.opened_by.role

    @property
    def has_newline(self) -> bool:
        """True if there is a newline before any part or before the closing bracket."""
        return any("\n" in text for text in [self.end, *(part.before for part in self.parts)])


Piece: TypeAlias = Word | Bracket


def first(piece: Piece) -> Word:
    """Return the first word of a piece."""
    return piece.opened_by if isinstance(piece, Bracket) else piece


def bracket_tree(words: Iterable[Word], end: str) -> Bracket:
    """Build the bracket tree of a file; its root is a body without brackets. `end` is the trivia after the last
    word."""
    builder = _BracketBuilder(Word("", "", "", "body"))
    enclosing: list[_BracketBuilder] = []
    for word in words:
        if word.role:
            enclosing.append(builder)
            builder = _BracketBuilder(word)
        elif word.kind in {")", "]", "}"}:
            closed = builder.close(word.before, word.text)
            builder = enclosing.pop()
            builder.add(closed)
        elif builder.is_separator(word):
            builder.next_part(word.before)
        else:
            builder.add(word)
    return builder.close(end, "")


class _BracketBuilder:
    """Builds one bracket. `gap` is the trivia before the next part; None while inside a part."""

    def __init__(self, opened_by: Word) -> None:
        self.bracket = Bracket(opened_by)
        self.gap: str | None = ""

    def is_separator(self, word: Word) -> bool:
        is_list = self.bracket.role != "body" and not self.bracket.comprehension
        return word.kind == "," and is_list

    def next_part(self, gap: str) -> None:
        self.gap = gap

    def add(self, piece: Piece) -> None:
        word = first(piece)
        self.bracket.comprehension |= word.kind == "for" and self.bracket.role == "group"
        if word.separates and self.gap is None:
            self.gap = ""
        if self.gap is not None:
            self.bracket.parts.append(Part(self.gap + word.before))
            self.gap = None
        self.bracket.parts[-1].pieces.append(piece)

    def close(self, before: str, text: str) -> Bracket:
        self.bracket.trailing_comma = bool(self.bracket.parts) and self.gap is not None
        self.bracket.end = (self.gap or "") + before
        self.bracket.closed_by = text
        return self.bracket
