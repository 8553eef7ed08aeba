"""Documents: text with places where lines may break, and how to print it in `WIDTH` columns.

After Wadler's "A prettier printer" (2003), as used by other formatters, with two additions: alternatives in braces,
whose lines do not force what is around them onto lines of its own, and comments, which do not count as width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

WIDTH = 120
STEP = 4


@dataclass(frozen=True)
class Line:
    """A line break; `flat` is what stands there while its group is on one line."""

    flat: str = ""


@dataclass(frozen=True)
class Newline:
    """A line break in any case, maybe with a blank line."""

    blank: bool = False


@dataclass(frozen=True)
class Comment:
    """A comment at the end of a line; a line break follows."""

    text: str


@dataclass(frozen=True)
class IfBroken:
    """A text that is there only when its group is not on one line."""

    text: str


@dataclass(frozen=True)
class Indent:
    """Lines of `content` are indented, when its group is not on one line."""

    content: Doc
    broken: bool = field(init=False)
    tall: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "broken", is_broken(self.content))
        object.__setattr__(self, "tall", is_tall(self.content))


@dataclass(frozen=True)
class Group:
    """Content whose own lines all break, or none; that must break if `broken`, and is on several lines if `tall`.

    A `chain` may stay unbroken around alternatives in braces and groups that `hug`: those start and end with a bracket,
    and break before the chain does. Other groups break when there are several lines in them.
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
    """An alternative: what stands above it, `name:` or `pattern =>`, its value and a comment at the end."""

    apart: bool
    lead: Sequence[Doc]
    key: Doc
    value: Doc
    comment: Sequence[Doc] = ()


@dataclass(frozen=True)
class Braces:
    """Alternatives: on one line, or one a line with their values aligned."""

    rows: Sequence[Row]
    broken: bool
    start: Sequence[Doc] = ()
    end: Sequence[Doc] = ()

    def flat(self) -> Doc:
        """All on one line."""
        if not self.rows:
            return "{}"
        rows = [[", ", row.key, " ", row.value] for row in self.rows]
        return ["{ ", *rows[0][1:], *rows[1:], " }"]


Doc: TypeAlias = str | Line | Newline | Comment | IfBroken | Indent | Group | Braces | Sequence["Doc"]


def is_broken(doc: Doc) -> bool:
    """Whether a document cannot stand on one line, what hugs aside."""
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
    """Whether a document takes several lines in any case."""
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
