"""Layout documents: text with optional line breaks, to be printed within `WIDTH` columns.

Based on Wadler, "A prettier printer" (2003), with two additions: alternatives in braces, whose line breaks do
not force the enclosing groups to break, and comments, which do not count towards the width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

WIDTH = 120
"""Maximum line length in columns, not counting trailing comments."""
INDENT_WIDTH = 4
"""Columns per indentation level."""


@dataclass(frozen=True)
class Line:
    """Optional line break; `flat` is printed instead if the enclosing group is not broken."""

    flat: str = ""


@dataclass(frozen=True)
class Newline:
    """Forced line break; `blank` adds a blank line before it."""

    blank: bool = False


@dataclass(frozen=True)
class Comment:
    """Trailing comment; a line break must follow it."""

    text: str


@dataclass(frozen=True)
class IfBroken:
    """Text that is printed only if the enclosing group is broken over several lines."""

    text: str


@dataclass(frozen=True)
class Indent:
    """Content whose line breaks are indented by one more level if the enclosing group is broken."""

    content: Doc
    broken: bool = field(init=False)
    tall: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "broken", is_broken(self.content))
        object.__setattr__(self, "tall", is_tall(self.content))


@dataclass(frozen=True)
class Group:
    """Content whose direct `Line`s all break or all stay on one line.

    `broken` forces them to break; `tall` says that the content takes several lines at any width. A tall group breaks,
    except for a `chain`. A chain may stay unbroken around alternatives in braces and around groups with `hug`, which
    start and end with a bracket and break before the chain does.
    """

    content: Sequence[Doc]
    broken: bool = False
    chain: bool = False
    hug: bool = False
    tall: bool = field(init=False)

    def __post_init__(self) -> None:
        tall = self.broken or is_tall(self.content)
        object.__setattr__(self, "broken", self.broken or (is_broken(self.content) if self.chain else tall))
        object.__setattr__(self, "tall", tall)


@dataclass(frozen=True)
class Row:
    """Alternative of a `choose` or `match`: comment lines above it, key, value, and trailing comment.

    The key is `name:` or `pattern =>`. `blank_before` says that a blank line precedes the alternative; the blank line
    ends the alignment of values.
    """

    blank_before: bool
    lead: Sequence[Doc]
    key: Doc
    value: Doc
    comment: Sequence[Doc] = ()


@dataclass(frozen=True)
class Braces:
    """Alternatives in braces: either all on one line, or one per line with aligned values."""

    rows: Sequence[Row]
    broken: bool
    start: Sequence[Doc] = ()
    end: Sequence[Doc] = ()

    def flat(self) -> Doc:
        """Return the document with all alternatives on one line."""
        if not self.rows:
            return "{}"
        rows = [[", ", row.key, " ", row.value] for row in self.rows]
        return ["{ ", *rows[0][1:], *rows[1:], " }"]


Doc: TypeAlias = str | Line | Newline | Comment | IfBroken | Indent | Group | Braces | Sequence["Doc"]


def is_broken(doc: Doc) -> bool:
    """Return True if a document must break its enclosing group; groups with `hug` and braces do not count."""
    match doc:
        case str() | Line() | IfBroken() | Braces():
            return False
        case Newline() | Comment():
            return True
        case Indent():
            return doc.broken
        case Group():
            return doc.broken and not doc.hug
        case _:
            return any(is_broken(part) for part in doc)


def is_tall(doc: Doc) -> bool:
    """Return True if a document takes several lines at any page width."""
    match doc:
        case str() | Line() | IfBroken():
            return False
        case Newline() | Comment():
            return True
        case Braces():
            return doc.broken
        case Indent() | Group():
            return doc.tall
        case _:
            return any(is_tall(part) for part in doc)
