"""Printing documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from archir.syntax.format.doc import (
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

Piece: TypeAlias = tuple[int, bool, Doc]
"""A document, how far its lines are indented, and whether its group is on one line."""


def render(doc: Doc) -> str:
    """The text of a document."""
    out: list[str] = []
    column = 0
    left: list[Piece] = [(0, False, doc)]
    while left:
        indent, flat, doc = left.pop()
        match doc:
            case str():
                out.append(doc)
                column += len(doc)
            case Line() if flat:
                out.append(doc.flat)
                column += len(doc.flat)
            case Line() | Newline():
                blank = isinstance(doc, Newline) and doc.blank
                out.append(("\n\n" if blank else "\n") + " " * indent)
                column = indent
            case Comment():
                out.append(f"  {doc.text}")
            case IfBroken():
                left.append((indent, flat, "" if flat else doc.text))
            case Indent():
                left.append((indent if flat else indent + STEP, flat, doc.content))
            case Group():
                one_line: Piece = (indent, True, doc.content)
                flat = not doc.broken and (
                    (flat and not doc.hug)
                    or _fits(WIDTH - column, one_line, left)
                    or (doc.chain and _fits(WIDTH - column, one_line, left, break_hugs=True))
                )
                left.append((indent, flat, doc.content))
            case Braces():
                one_line = (indent, True, doc.flat())
                if not doc.broken and _fits(WIDTH - column, one_line, left):
                    left.append(one_line)
                else:
                    inner: Piece = (indent + STEP, False, [*doc.start, *_rows(doc, indent + STEP), *doc.end])
                    left += [(indent, False, [Newline(), "}"]), inner, (indent, False, "{")]
            case _:
                left += [(indent, flat, part) for part in reversed(doc)]
    return "".join(out)


def _fits(room: int, piece: Piece, after: Sequence[Piece], break_hugs: bool = False) -> bool:
    """Whether lines have room: what is `after` the piece, the last first, up to where it may break, and before that
    the piece, which breaks where it must, and with `break_hugs` in braces and in groups that hug."""
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
        indent, flat, doc = todo.pop()
        match doc:
            case str():
                room -= len(doc)
            case Line() if flat:
                room -= len(doc.flat)
            case Line() | Newline() | Comment():
                return True
            case IfBroken():
                room -= 0 if flat else len(doc.text)
            case Indent():
                todo.append((indent if flat else indent + STEP, flat, doc.content))
            case Group() if not doc.hug or (mine and not doc.broken and not break_hugs):
                todo.append((indent, flat and not doc.broken, doc.content))
            case Braces() if mine and not doc.broken and not break_hugs:
                todo.append((indent, True, doc.flat()))
            case Braces() | Group():
                if not mine or room < 1:
                    return room >= 1
                room = WIDTH - indent - 1
            case _:
                todo += [(indent, flat, part) for part in reversed(doc)]
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
