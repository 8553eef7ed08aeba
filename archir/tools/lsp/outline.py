"""What a file consists of: its blocks, nets and choices, and which lines fold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from archir.language.elaboration.locals import walk
from archir.language.syntax import ast
from archir.tools.lsp.view import View

_HEADER = re.compile(r"^(?:own[ \t]+)?(block|cell|net|const)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


@dataclass(frozen=True)
class Symbol:
    """Something that has a name, `start:end` as a whole and `named` where its name begins, with what is in it."""

    name: str
    kind: str
    start: int
    end: int
    named: int
    inside: list[Symbol] = field(default_factory=list)


def symbols(view: View) -> list[Symbol]:
    """The outline; of what cannot be read, the first line says what it is."""
    found = []
    for item in view.read.file.items:
        if isinstance(item, ast.Definition):
            inside = list(_inside(item))
            span = item.span
            found.append(Symbol(item.name.text, item.word, span.start, span.end, item.name.span.start, inside))
        elif isinstance(item, ast.Const):
            span = item.span
            found.append(Symbol(item.name.text, "const", span.start, span.end, item.name.span.start))
    for start, end in view.read.left_out:
        for match in _HEADER.finditer(view.text, start, end):
            if not any(one.named == match.start(2) for one in found):
                found.append(Symbol(match[2], match[1], match.start(), max(match.end(), end), match.start(2)))
    return sorted(found, key=lambda one: one.start)


def _inside(definition: ast.Definition) -> Iterator[Symbol]:
    for part in walk(definition):
        span = part.span
        match part:
            case ast.Choose(label=ast.Name() as label):
                yield Symbol(label.text, "choice", span.start, span.end, label.span.start)
            case ast.Input() | ast.Output():
                yield Symbol(part.name.text, type(part).__name__.lower(), span.start, span.end, part.name.span.start)


def folds(view: View) -> list[tuple[int, int]]:
    """First and last lines, from 1, of what stands in brackets over several lines, and of runs of comments."""
    found, open_ = [], []
    text = view.text
    for match in re.finditer(r'"[^"\n]*"|#[^\n]*|[(\[{}\])]', text):
        if match[0] in "([{":
            open_.append(match.start())
        elif match[0] in ")]}" and open_:
            first, last = (text.count("\n", 0, place) + 1 for place in (open_.pop(), match.start()))
            if last - 1 > first:
                found.append((first, last - 1))
    for run in re.finditer(r"(?:^[ \t]*#[^\n]*\n){2,}", text, re.MULTILINE):
        first = text.count("\n", 0, run.start()) + 1
        found.append((first, first + run[0].count("\n") - 1))
    return sorted(set(found))
