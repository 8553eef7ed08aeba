"""Document symbols (definitions, constants, choices, inputs, outputs) and folding ranges of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast
from archir.tools.lsp.view import View

_HEADER = re.compile(r"^(?:own[ \t]+)?(block|cell|net|const)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
"""Pattern of the header line of a definition or constant, used in parts of a text that do not parse."""


@dataclass(frozen=True)
class Symbol:
    """Named part of a text, at offsets `start:end`, with the offset of its name and its child symbols."""

    name: str
    kind: str
    start: int
    end: int
    name_start: int
    children: list[Symbol] = field(default_factory=list)


def symbols(view: View) -> list[Symbol]:
    """Return the document symbols of a text.

    Where the text does not parse, definitions are found by their header lines.
    """
    outline = []
    for item in view.parsed.file.items:
        if isinstance(item, ast.Definition):
            children = list(_children_of(item))
            span = item.span
            outline.append(Symbol(item.name.text, item.word, span.start, span.end, item.name.span.start, children))
        elif isinstance(item, ast.Const):
            span = item.span
            outline.append(Symbol(item.name.text, "const", span.start, span.end, item.name.span.start))
    for start, end in view.parsed.skipped:
        for match in _HEADER.finditer(view.text, start, end):
            if not any(symbol.name_start == match.start(2) for symbol in outline):
                outline.append(Symbol(match[2], match[1], match.start(), max(match.end(), end), match.start(2)))
    return sorted(outline, key=lambda symbol: symbol.start)


def find_definitions(text: str, query: str) -> Iterator[Symbol]:
    """Yield the blocks, cells, nets and constants of a text whose names contain the characters of a query, in order.

    Upper and lower case are the same. The text is not parsed; each symbol is the header of a definition.
    """
    pattern = re.compile(".*".join(map(re.escape, query)), re.IGNORECASE)
    for match in _HEADER.finditer(text):
        if pattern.search(match[2]):
            yield Symbol(match[2], match[1], match.start(), match.end(), match.start(2))


def _children_of(definition: ast.Definition) -> Iterator[Symbol]:
    """Yield the labelled choices, the inputs and the outputs of a definition."""
    for part in walk(definition):
        span = part.span
        match part:
            case ast.Choose(label=ast.Name() as label):
                yield Symbol(label.text, "choice", span.start, span.end, label.span.start)
            case ast.Input() | ast.Output():
                yield Symbol(part.name.text, type(part).__name__.lower(), span.start, span.end, part.name.span.start)


def folding_ranges(view: View) -> list[tuple[int, int]]:
    """Return the (first, last) lines, counted from 1, of multi-line brackets and of consecutive comment lines."""
    ranges, open_brackets = [], []
    text = view.text
    for match in re.finditer(r'"[^"\n]*"|#[^\n]*|[(\[{}\])]', text):
        if match[0] in "([{":
            open_brackets.append(match.start())
        elif match[0] in ")]}" and open_brackets:
            first, last = (text.count("\n", 0, offset) + 1 for offset in (open_brackets.pop(), match.start()))
            if last - 1 > first:
                ranges.append((first, last - 1))
    for run in re.finditer(r"(?:^[ \t]*#[^\n]*\n){2,}", text, re.MULTILINE):
        first = text.count("\n", 0, run.start()) + 1
        ranges.append((first, first + run[0].count("\n") - 1))
    return sorted(set(ranges))
