"""Prints layout documents as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TypeAlias

from archir.language.formatter.doc import (
    INDENT_WIDTH,
    WIDTH,
    Braces,
    Comment,
    Doc,
    Group,
    IfBroken,
    Indent,
    Line,
    Newline,
    Row,
    is_tall,
)


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
