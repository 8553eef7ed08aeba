"""Layout documents: text with optional line breaks, and printing them within `WIDTH` columns.

Based on Wadler, "A prettier printer" (2003), with two additions: alternatives in braces, whose line breaks do
not force the enclosing groups to break, and comments, which do not count towards the width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
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


class Mode(Enum):
    """How the `Line`s of a group are printed.

    BROKEN: as line breaks. LOOSE: on one line, but braces and groups with `hug` inside may break. FLAT:
    everything on one line.
    """

    BROKEN = 0
    LOOSE = 1
    FLAT = 2


Piece: TypeAlias = tuple[int, Mode, Doc]
"""Indentation in columns, mode of the enclosing group, and a document to print."""


def render(doc: Doc) -> str:
    """Print a layout document."""
    out: list[str] = []
    column = 0
    stack: list[Piece] = [(0, Mode.BROKEN, doc)]
    while stack:
        indent, mode, doc = stack.pop()
        match doc:
            case str():
                out.append(doc)
                column += len(doc)
            case Line() if mode is not Mode.BROKEN:
                out.append(doc.flat)
                column += len(doc.flat)
            case Line() | Newline():
                blank = isinstance(doc, Newline) and doc.blank
                out.append(("\n\n" if blank else "\n") + " " * indent)
                column = indent
            case Comment():
                out.append(f"  {doc.text}")
            case IfBroken() if mode is Mode.BROKEN:
                stack.append((indent, mode, doc.text))
            case IfBroken():
                pass
            case Indent():
                stack.append((_inner_indent(indent, mode), mode, doc.content))
            case Group():
                stack.append((indent, _mode(doc, indent, mode, WIDTH - column, stack), doc.content))
            case Braces():
                one_line: Piece = (indent, Mode.FLAT, doc.flat())
                if mode is Mode.FLAT or (not doc.broken and _fits(WIDTH - column, one_line, stack)):
                    stack.append(one_line)
                else:
                    rows = [*doc.start, *_rows(doc, indent + INDENT_WIDTH), *doc.end]
                    stack.append((indent, Mode.BROKEN, ["{", Indent(rows), Newline(), "}"]))
            case _:
                stack += [(indent, mode, part) for part in reversed(doc)]
    return "".join(out)


def _inner_indent(indent: int, mode: Mode) -> int:
    return indent + INDENT_WIDTH if mode is Mode.BROKEN else indent


def _mode(group: Group, indent: int, enclosing: Mode, width_left: int, after: Sequence[Piece]) -> Mode:
    """Choose the flattest mode in which a group fits the columns left on the line."""
    if enclosing is Mode.FLAT or (enclosing is Mode.LOOSE and not (group.chain or group.hug)):
        return Mode.FLAT
    if not group.tall and _fits(width_left, (indent, Mode.FLAT, group.content), after):
        return Mode.FLAT
    if group.chain and not group.broken and _fits(width_left, (indent, Mode.LOOSE, group.content), after):
        return Mode.LOOSE
    return Mode.BROKEN


def _fits(width_left: int, piece: Piece, after: Sequence[Piece]) -> bool:
    """Return True if a piece and the text after it, up to the next possible line break, fit into `width_left`
    columns.

    `after` is the stack of pieces to print afterwards, next one last.
    """
    own: list[Piece] = [piece]
    following: list[Piece] = []
    position = len(after)
    while width_left >= 0:
        if not own and not following:
            if position == 0:
                return True
            position -= 1
            following.append(after[position])
        is_own = bool(own)
        todo = own or following
        indent, mode, doc = todo.pop()
        match doc:
            case str():
                width_left -= len(doc)
            case Line() if mode is not Mode.BROKEN:
                width_left -= len(doc.flat)
            case Line() | Newline() | Comment():
                return True
            case IfBroken():
                width_left -= len(doc.text) if mode is Mode.BROKEN else 0
            case Indent():
                todo.append((_inner_indent(indent, mode), mode, doc.content))
            case Braces() if mode is Mode.FLAT:
                todo.append((indent, mode, doc.flat()))
            case Group() if mode is not Mode.LOOSE or doc.chain:
                todo.append((indent, mode, doc.content))
            case Group() if not doc.hug:
                todo.append((indent, Mode.FLAT, doc.content))
            case Group() | Braces():  # it breaks: one line ends with the opening bracket, another starts at the closing
                if not is_own or width_left < 1:
                    return width_left >= 1
                width_left = WIDTH - indent - 1
            case _:
                todo += [(indent, mode, part) for part in reversed(doc)]
    return False


def _rows(braces: Braces, indent: int) -> list[Doc]:
    """Lay out one alternative per line; values of adjacent alternatives that fit on a line are aligned."""
    keys = [_alignment_key(row, indent) for row in braces.rows]
    docs: list[Doc] = []
    column = 0
    for i, (row, key) in enumerate(zip(braces.rows, keys, strict=True)):
        if i == 0 or not keys[i - 1] or row.blank_before:
            column = max(map(len, _aligned_keys(braces.rows, keys, i)), default=0)
        fits = key and indent + column + 1 + len(flat_text(row.value)) <= WIDTH
        space = " " * (column - len(key)) if fits else ""
        docs.append([*row.lead, row.key, space, " ", row.value, *row.comment])
    return docs


def _aligned_keys(rows: Sequence[Row], keys: Sequence[str], start: int) -> Iterator[str]:
    """Yield the keys, from index `start`, that are aligned with each other."""
    for i in range(start, len(rows)):
        if not keys[i] or (i > start and rows[i].blank_before):
            return
        yield keys[i]


def _alignment_key(row: Row, indent: int) -> str:
    """Return the text of a key to be aligned; "" if the alternative is not aligned, as it does not fit on a line or
    has `=>`."""
    key = flat_text(row.key)
    fits_line = not is_tall([row.key, row.value]) and indent + len(key) + 1 + len(flat_text(row.value)) <= WIDTH
    return key if fits_line and key.endswith(":") else ""


def flat_text(doc: Doc) -> str:
    """Return the text of a document on one line; the document must not be `tall`."""
    out: list[str] = []
    stack = [doc]
    while stack:
        match stack.pop():
            case str() as text:
                out.append(text)
            case Line() as line:
                out.append(line.flat)
            case Indent() | Group() as inner:
                stack.append(inner.content)
            case Braces() as braces:
                stack.append(braces.flat())
            case Newline() | Comment() | IfBroken():
                pass
            case parts:
                stack += reversed(parts)
    return "".join(out)
