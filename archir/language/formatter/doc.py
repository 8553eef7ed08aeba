"""Documents: text with possible line breaks, to be printed in `WIDTH` columns.

After Wadler's "A prettier printer" (2003), as used by other formatters, with two additions: alternatives in braces,
whose line breaks do not force their surroundings to break, and comments, which do not count as width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

WIDTH = 120
"""Maximum number of columns of a line, comments at its end not counted."""
INDENT_WIDTH = 4
"""Columns of one level of indentation."""


@dataclass(frozen=True)
class Line:
    """A possible line break; `flat` is the text printed instead while its group is on one line."""

    flat: str = ""


@dataclass(frozen=True)
class Newline:
    """A forced line break, after a blank line if `blank`."""

    blank: bool = False


@dataclass(frozen=True)
class Comment:
    """A comment at the end of a line; a line break follows it."""

    text: str


@dataclass(frozen=True)
class IfBroken:
    """Text that is printed only if its group is broken over several lines."""

    text: str


@dataclass(frozen=True)
class Indent:
    """Content whose line breaks are indented by one level if its group is broken."""

    content: Doc
    broken: bool = field(init=False)
    tall: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "broken", is_broken(self.content))
        object.__setattr__(self, "tall", is_tall(self.content))


@dataclass(frozen=True)
class Group:
    """Content whose own lines break all together or not at all.

    It must break if `broken`, and takes several lines if `tall`. A group breaks if its content takes several lines,
    except a `chain`: it may stay unbroken around alternatives in braces and around groups that `hug`. Those start and
    end with a bracket, and break before the chain does.
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
    """An alternative of `choose` or `match`: the lines above it, its key (`name:` or `pattern =>`), its value, and the
    comment at its end.

    `blank_before` says whether a blank line comes before it, which ends the alignment of values.
    """

    blank_before: bool
    lead: Sequence[Doc]
    key: Doc
    value: Doc
    comment: Sequence[Doc] = ()


@dataclass(frozen=True)
class Braces:
    """Alternatives in braces: on one line, or one on each line with their values aligned."""

    rows: Sequence[Row]
    broken: bool
    start: Sequence[Doc] = ()
    end: Sequence[Doc] = ()

    def flat(self) -> Doc:
        """Return the document of all alternatives on one line."""
        if not self.rows:
            return "{}"
        rows = [[", ", row.key, " ", row.value] for row in self.rows]
        return ["{ ", *rows[0][1:], *rows[1:], " }"]


Doc: TypeAlias = str | Line | Newline | Comment | IfBroken | Indent | Group | Braces | Sequence["Doc"]


def is_broken(doc: Doc) -> bool:
    """Return whether a document cannot be printed on one line; groups that hug are not counted."""
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
    """Return whether a document takes several lines, however wide the page is."""
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
