"""Error recovery: reports syntax errors beyond the first, and parses as much of a broken text as possible.

There is a single grammar, with no extra rules for broken texts. Recovery blanks out the smallest range of lines around
an error that lets the parser get past the error, then parses again. Candidate ranges follow the indentation that
`archir fmt` produces: first the line with the error, then this line with all deeper-indented lines after it, then the
same for the enclosing line, and so on, up to a top-level item. Blanking preserves offsets, so that spans refer to the
original text.
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
"""Maximum number of syntax errors to report; users rarely read more."""
MAX_REPARSED = 2**20
"""Maximum number of characters that recovery may parse again, in total."""
_WORK_SHARE = 0.25
"""Fraction of the remaining work budget that recovery may spend."""
_VISIBLE = re.compile(r"[^\r\n]")


@dataclass(frozen=True)
class ParseResult:
    """Result of parsing with recovery: the tree of the parsed items, syntax errors in text order, and blanked-out
    ranges as (start, end) offsets."""

    file: ast.File
    problems: tuple[Diagnostic, ...] = ()
    skipped: tuple[tuple[int, int], ...] = ()


def parse_recovering(source: Source, cache: ParsedItems | None = None) -> ParseResult:
    """Parse a text, and report as many of its syntax errors as can be told apart.

    Items found in `cache` are not parsed again; newly parsed items are added to it. Raises WorkError if the work
    budget is too small to parse the text once.
    """
    cache = {} if cache is None else cache
    try:
        return ParseResult(parse_source(source, source, cache))
    except ParseError as error:
        first = error
    return _recover(source, first, cache)


def _recover(source: Source, error: ParseError, cache: ParsedItems) -> ParseResult:
    """After a syntax error, blank out ranges and parse again until the text is valid or a limit is reached."""
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
    """Replace the spans of a diagnostic, which are in the blanked-out text, by equal ones in the original text."""
    notes = [replace(note, span=_rebase_span(note.span, source)) if note.span else note for note in problem.notes]
    return replace(problem, span=_rebase_span(problem.span, source), notes=tuple(notes))


def _rebase_span(span: Span | None, source: Source) -> Span | None:
    return span and Span(source, span.start, span.end)


def _range_to_skip(text: str, error: ParseError) -> tuple[tuple[int, int] | None, int]:
    """Return the range to blank out because of a syntax error, and the number of characters parsed to find it.

    The range is None if no text is left.
    """
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
    """Return the (start, end) offsets of the top-level item that contains an offset, judged by the first words of
    lines."""
    return next((part for part in reversed(split_items(text)) if part[0] <= place), (0, len(text)))


def _enclosing_ranges(text: str, place: int, begin: int, end: int) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield ever larger line ranges around an offset within an item, but not the whole item.

    Each comes with a flag that tells whether it includes all deeper-indented lines that follow its first line.
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
    """Return (start offset, end offset, indentation) for each line of a text range."""
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
