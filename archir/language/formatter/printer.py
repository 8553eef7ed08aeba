"""Printing documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TypeAlias

from archir.language.formatter.doc import (
    STEP,
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
    """How the lines of a group are: broken; flat, but for what hugs; flat, with all that is inside."""

    BROKEN = 0
    LOOSE = 1
    FLAT = 2


Piece: TypeAlias = tuple[int, Mode, Doc]
"""A document, how far its lines are indented, and the mode of its group."""


def render(doc: Doc) -> str:
    """The text of a document."""
    out: list[str] = []
    column = 0
    left: list[Piece] = [(0, Mode.BROKEN, doc)]
    while left:
        indent, mode, doc = left.pop()
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
                left.append((indent, mode, doc.text))
            case IfBroken():
                pass
            case Indent():
                left.append((_inner(indent, mode), mode, doc.content))
            case Group():
                left.append((indent, _mode(doc, indent, mode, WIDTH - column, left), doc.content))
            case Braces():
                one_line: Piece = (indent, Mode.FLAT, doc.flat())
                if mode is Mode.FLAT or (not doc.broken and _fits(WIDTH - column, one_line, left)):
                    left.append(one_line)
                else:
                    rows = [*doc.start, *_rows(doc, indent + STEP), *doc.end]
                    left.append((indent, Mode.BROKEN, ["{", Indent(rows), Newline(), "}"]))
            case _:
                left += [(indent, mode, part) for part in reversed(doc)]
    return "".join(out)


def _inner(indent: int, mode: Mode) -> int:
    return indent + STEP if mode is Mode.BROKEN else indent


def _mode(group: Group, indent: int, outer: Mode, room: int, after: Sequence[Piece]) -> Mode:
    if outer is Mode.FLAT or (outer is Mode.LOOSE and not (group.chain or group.hug)):
        return Mode.FLAT
    if not group.tall and _fits(room, (indent, Mode.FLAT, group.content), after):
        return Mode.FLAT
    if group.chain and not group.broken and _fits(room, (indent, Mode.LOOSE, group.content), after):
        return Mode.LOOSE
    return Mode.BROKEN


def _fits(room: int, piece: Piece, after: Sequence[Piece]) -> bool:
    """Whether the lines of a piece have `room`, with what is `after` it, the last first, up to where that may break."""
    own: list[Piece] = [piece]
    rest: list[Piece] = []
    position = len(after)
    while room >= 0:
        if not own and not rest:
            if position == 0:
                return True
            position -= 1
            rest.append(after[position])
        mine = bool(own)
        todo = own or rest
        indent, mode, doc = todo.pop()
        match doc:
            case str():
                room -= len(doc)
            case Line() if mode is not Mode.BROKEN:
                room -= len(doc.flat)
            case Line() | Newline() | Comment():
                return True
            case IfBroken():
                room -= len(doc.text) if mode is Mode.BROKEN else 0
            case Indent():
                todo.append((_inner(indent, mode), mode, doc.content))
            case Braces() if mode is Mode.FLAT:
                todo.append((indent, mode, doc.flat()))
            case Group() if mode is not Mode.LOOSE or doc.chain:
                todo.append((indent, mode, doc.content))
            case Group() if not doc.hug:
                todo.append((indent, Mode.FLAT, doc.content))
            case Group() | Braces():  # the line ends with the opening bracket, and another starts with the closing one
                if not mine or room < 1:
                    return room >= 1
                room = WIDTH - indent - 1
            case _:
                todo += [(indent, mode, part) for part in reversed(doc)]
    return False


def _rows(braces: Braces, indent: int) -> list[Doc]:
    """One alternative a line; the values of named neighbours that fit on a line are aligned."""
    keys = [_key(row, indent) for row in braces.rows]
    docs: list[Doc] = []
    column = 0
    for i, (row, key) in enumerate(zip(braces.rows, keys, strict=True)):
        if i == 0 or not keys[i - 1] or row.apart:
            column = max(map(len, _run(braces.rows, keys, i)), default=0)
        fits = key and indent + column + 1 + len(flat_text(row.value)) <= WIDTH
        space = " " * (column - len(key)) if fits else ""
        docs.append([*row.lead, row.key, space, " ", row.value, *row.comment])
    return docs


def _run(rows: Sequence[Row], keys: Sequence[str], start: int) -> Iterator[str]:
    """The keys from `start` on that are aligned with each other."""
    for i in range(start, len(rows)):
        if not keys[i] or (i > start and rows[i].apart):
            return
        yield keys[i]


def _key(row: Row, indent: int) -> str:
    """The text of a key that is aligned with others, or nothing."""
    key = flat_text(row.key)
    alone = not is_tall([row.key, row.value]) and indent + len(key) + 1 + len(flat_text(row.value)) <= WIDTH
    return key if alone and key.endswith(":") else ""


def flat_text(doc: Doc) -> str:
    """The text of a document that is not tall, on one line."""
    out: list[str] = []
    left = [doc]
    while left:
        match left.pop():
            case str() as text:
                out.append(text)
            case Line() as line:
                out.append(line.flat)
            case Indent() | Group() as inner:
                left.append(inner.content)
            case Braces() as braces:
                left.append(braces.flat())
            case Newline() | Comment() | IfBroken():
                pass
            case parts:
                left += reversed(parts)
    return "".join(out)
