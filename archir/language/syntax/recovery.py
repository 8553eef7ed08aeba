"""Error recovery: report further mistakes after the first, and parse as much of a broken text as possible.

There is one grammar, and no second one for broken texts. Recovery blanks out the smallest range of lines around a
mistake that lets the parser go on after it, and parses again. Candidate ranges follow the indentation that `fmt`
produces: the line, then the line with the lines indented deeper, then the line that this one belongs to, and so on up
to an item of the file. Blanking keeps all offsets, so that spans are those of the original text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from archir.diagnostics.errors import Diagnostic, Source, Span
from archir.diagnostics.work import WorkError, budget_share
from archir.language.syntax import ast
from archir.language.syntax.strict_parse import ParsedItems, ParseError, parse_source, parsed_until, split_items

MAX_PROBLEMS = 20
"""Maximum number of mistakes that are reported; users rarely read more."""
MAX_REPARSED = 2**20
"""Maximum number of characters that recovery parses again."""
_WORK_SHARE = 0.25
"""Share of the remaining work budget that recovery may spend."""
_VISIBLE = re.compile(r"[^\r\n]")


@dataclass(frozen=True)
class ParseResult:
    """Result of parsing with recovery: the tree of what could be parsed, the mistakes in the order of the text, and the
    (start, end) offsets of the ranges that were blanked out."""

    file: ast.File
    problems: tuple[Diagnostic, ...] = ()
    skipped: tuple[tuple[int, int], ...] = ()


def parse_recovering(source: Source, cache: ParsedItems | None = None) -> ParseResult:
    """Parse a text, reporting as many of its mistakes as can be separated.

    Items in the `cache` are not parsed again, and items that are parsed are added to it. Raises WorkError if the
    budget does not suffice for parsing once.
    """
    cache = {} if cache is None else cache
    try:
        return ParseResult(parse_source(source, source, cache))
    except ParseError as error:
        first = error
    return _recover(source, first, cache)


def _recover(source: Source, error: ParseError, cache: ParsedItems) -> ParseResult:
    """Blank out ranges and parse again until the text is parsed or a limit is reached."""
    text, problems = source.text, [error.problem]
    skipped: list[tuple[int, int]] = []
    budget = MAX_REPARSED
    try:
        with budget_share(_WORK_SHARE):
            while budget > 0:
                stretch, tried = _range_to_skip(text, error)
                if stretch is None:
                    break
                skipped.append(stretch)
                text = _blank_out(text, *stretch)
                budget -= tried + len(text)
                try:
                    file = parse_source(Source(source.name, text), source, cache)
                except ParseError as further:
                    error = further
                    if len(problems) == MAX_PROBLEMS:
                        break
                    problems.append(_rebase(error.problem, source))
                else:
                    return ParseResult(file, _sorted(problems), tuple(skipped))
    except WorkError:
        pass
    empty = ast.File(Span(source, 0, len(source.text)), 1, ())
    return ParseResult(empty, _sorted(problems), ((0, len(source.text)),))


def _sorted(problems: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(problems, key=lambda problem: problem.span.start if problem.span else 0))


def _rebase(problem: Diagnostic, source: Source) -> Diagnostic:
    """Return the diagnostic with its spans in the original text instead of the blanked one."""
    notes = [replace(note, span=_rebase_span(note.span, source)) if note.span else note for note in problem.notes]
    return replace(problem, span=_rebase_span(problem.span, source), notes=tuple(notes))


def _rebase_span(span: Span | None, source: Source) -> Span | None:
    return span and Span(source, span.start, span.end)


def _range_to_skip(text: str, error: ParseError) -> tuple[tuple[int, int] | None, int]:
    """Return the range to blank out for a mistake (None if nothing is left), and the number of characters parsed to
    find it."""
    at = error.problem.span.start if error.problem.span is not None else error.at
    tried = 0
    for place in dict.fromkeys((min(at, max(len(text) - 1, 0)), min(error.at, max(len(text) - 1, 0)))):
        begin, end = item_range(text, place)
        before = parsed_until(text, begin, end)
        tried += end - begin
        if before > end:
            continue  # this item parses completely: the mistake is in another one
        for stretch, is_complete in _enclosing_ranges(text, place, begin, end):
            tried += end - begin
            further = parsed_until(_blank_out(text, *stretch), begin, end)
            if further > end or (is_complete and further > max(before, stretch[1])):
                return stretch, tried
        if text[begin:end].strip():
            return (begin, end), tried
    return ((0, len(text)) if text.strip() else None), tried


def item_range(text: str, place: int) -> tuple[int, int]:
    """Return the (start, end) offsets of the item around an offset, judging by the first words of lines."""
    return next((part for part in reversed(split_items(text)) if part[0] <= place), (0, len(text)))


def _enclosing_ranges(text: str, place: int, begin: int, end: int) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield ranges of lines around an offset within an item, each wider than the last; the whole item is not among
    them.

    With each range: whether it is complete, that is includes all lines that are indented deeper than its first.
    """
    lines = _lines(text, begin, end)
    number = next((n for n, (start, stop, _) in enumerate(lines) if start <= place <= stop), len(lines) - 1)
    while True:
        start, stop, indent = lines[number]
        last = number
        while last + 1 < len(lines) and (lines[last + 1][2] > indent or not text[slice(*lines[last + 1][:2])].strip()):
            last += 1
        if last + 1 < len(lines) and lines[last + 1][2] == indent and text[lines[last + 1][0] + indent] in ")]}":
            last += 1
        yield (start, stop), last == number
        if last > number:
            yield (start, lines[last][1]), True
        outer = number - 1
        while outer >= 0 and (lines[outer][2] >= indent or not text[slice(*lines[outer][:2])].strip()):
            outer -= 1
        if outer < 0:
            return
        number = outer


def _lines(text: str, begin: int, end: int) -> list[tuple[int, int, int]]:
    """Return start offset, end offset and indentation of each line."""
    lines = []
    while begin < end:
        stop = text.find("\n", begin, end)
        stop = end if stop < 0 else stop
        line = text[begin:stop]
        lines.append((begin, stop, len(line) - len(line.lstrip(" \t"))))
        begin = stop + 1
    return lines or [(begin, end, 0)]


def _blank_out(text: str, begin: int, end: int) -> str:
    return text[:begin] + _VISIBLE.sub(" ", text[begin:end]) + text[end:]
