"""The brackets of a file as a tree: what is inside each, part by part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from archir.language.formatter.tokens import Word


@dataclass
class Part:
    """A statement, an alternative or an element: its pieces, and the text of the gap in front of it."""

    before: str = ""
    pieces: list[Piece] = field(default_factory=list)


@dataclass
class Bracket:
    """A bracket with its parts. `end` is the text of the gap in front of the closing word, `closed_by`."""

    opened_by: Word
    parts: list[Part] = field(default_factory=list)
    end: str = ""
    closed_by: str = ""
    trailing_comma: bool = False
    comprehension: bool = False

    @property
    def role(self) -> str:
        """What the bracket is for, see `Word`."""
        return self.opened_by.role

    @property
    def breaks(self) -> bool:
        """Whether one of the gaps around the parts holds a newline."""
        return any("\n" in text for text in [self.end, *(part.before for part in self.parts)])


Piece: TypeAlias = Word | Bracket


def first(piece: Piece) -> Word:
    """The word that a piece starts with."""
    return piece.opened_by if isinstance(piece, Bracket) else piece


def bracketed(words: Iterable[Word], end: str) -> Bracket:
    """A file, as a body without brackets; `end` is what follows the last word."""
    reading = _Reading(Word("", "", "", "body"))
    outer: list[_Reading] = []
    for word in words:
        if word.role:
            outer.append(reading)
            reading = _Reading(word)
        elif word.kind in {")", "]", "}"}:
            closed = reading.close(word.before, word.text)
            reading = outer.pop()
            reading.add(closed)
        elif reading.is_separator(word):
            reading.next_part(word.before)
        else:
            reading.add(word)
    return reading.close(end, "")


class _Reading:
    """A bracket that is being read; `gap` is the text in front of the part that starts next."""

    def __init__(self, opened_by: Word) -> None:
        self.bracket = Bracket(opened_by)
        self.gap: str | None = ""

    def is_separator(self, word: Word) -> bool:
        lists = self.bracket.role != "body" and not self.bracket.comprehension
        return word.kind == "," and lists

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
