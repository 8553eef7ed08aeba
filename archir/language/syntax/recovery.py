"""What is wrong with a text after its first mistake, and what can be read of it all the same.

There is one grammar, and no second one for broken texts: the smallest stretch of lines around a mistake is blanked out
that lets what follows be read, and the rest is read again. Stretches are found by indentation, as `fmt` lays it out: a
line, then a line with those that are indented deeper, then the one which that belongs to, and so on up to an item of
the file. Nothing is moved, so that places are those of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from archir.diagnostics.errors import Diagnostic, Source, Span
from archir.diagnostics.work import WorkError, portion
from archir.language.syntax import ast
from archir.language.syntax.reading import Known, RefusedError, parted, reach, read

MOST_PROBLEMS = 20
"""Mistakes that are told; what comes after so many is rarely read."""
MOST_READ = 2**20
"""Characters that are read again on the way."""
_SHARE = 0.25
"""Of the work that is left, what finding further mistakes may take."""
_VISIBLE = re.compile(r"[^\r\n]")


@dataclass(frozen=True)
class Recovered:
    """What could be read of a text, its mistakes in the order of the text, and the stretches that were left out."""

    file: ast.File
    problems: tuple[Diagnostic, ...] = ()
    left_out: tuple[tuple[int, int], ...] = ()


def recovered(source: Source, known: Known | None = None) -> Recovered:
    """A text with as many of its mistakes as can be told apart. Raises WorkError if reading it once is too much.

    Items that are `known` are not read, and all that are read become known.
    """
    known = {} if known is None else known
    try:
        return Recovered(read(source, source, known))
    except RefusedError as error:
        first = error
    return _beyond(source, first, known)


def _beyond(source: Source, error: RefusedError, known: Known) -> Recovered:
    text, problems = source.text, [error.problem]
    left_out: list[tuple[int, int]] = []
    left = MOST_READ
    try:
        with portion(_SHARE):
            while left > 0:
                stretch, tried = _stretch(text, error)
                if stretch is None:
                    break
                left_out.append(stretch)
                text = _blanked(text, *stretch)
                left -= tried + len(text)
                try:
                    file = read(Source(source.name, text), source, known)
                except RefusedError as further:
                    error = further
                    if len(problems) == MOST_PROBLEMS:
                        break
                    problems.append(_moved(error.problem, source))
                else:
                    return Recovered(file, _sorted(problems), tuple(left_out))
    except WorkError:
        pass
    empty = ast.File(Span(source, 0, len(source.text)), 1, ())
    return Recovered(empty, _sorted(problems), ((0, len(source.text)),))


def _sorted(problems: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(problems, key=lambda one: one.span.start if one.span else 0))


def _moved(problem: Diagnostic, source: Source) -> Diagnostic:
    """The problem as one of the text that nothing was left out of."""
    notes = [replace(note, span=_in(note.span, source)) if note.span else note for note in problem.notes]
    return replace(problem, span=_in(problem.span, source), notes=tuple(notes))


def _in(span: Span | None, source: Source) -> Span | None:
    return span and Span(source, span.start, span.end)


def _stretch(text: str, error: RefusedError) -> tuple[tuple[int, int] | None, int]:
    """The stretch to leave out for a mistake, None if nothing is left; and how many characters were read to find it."""
    at = error.problem.span.start if error.problem.span is not None else error.at
    tried = 0
    for place in dict.fromkeys((min(at, max(len(text) - 1, 0)), min(error.at, max(len(text) - 1, 0)))):
        begin, end = chunk(text, place)
        before = reach(text, begin, end)
        tried += end - begin
        if before > end:
            continue  # this item is whole: what is wrong stands elsewhere
        for stretch, whole in _around(text, place, begin, end):
            tried += end - begin
            further = reach(_blanked(text, *stretch), begin, end)
            if further > end or (whole and further > max(before, stretch[1])):
                return stretch, tried
        if text[begin:end].strip():
            return (begin, end), tried
    return ((0, len(text)) if text.strip() else None), tried


def chunk(text: str, place: int) -> tuple[int, int]:
    """The item of a file that a place is in, as far as it can be told by the first words of lines."""
    return next((part for part in reversed(parted(text)) if part[0] <= place), (0, len(text)))


def _around(text: str, place: int, begin: int, end: int) -> Iterator[tuple[tuple[int, int], bool]]:
    """Stretches of lines around a place within an item, each wider than the last, but for the whole item.

    With each, whether it is whole: has all the lines that are indented deeper than its first.
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
    """Where lines begin and end, and how far they are indented."""
    found = []
    while begin < end:
        stop = text.find("\n", begin, end)
        stop = end if stop < 0 else stop
        line = text[begin:stop]
        found.append((begin, stop, len(line) - len(line.lstrip(" \t"))))
        begin = stop + 1
    return found or [(begin, end, 0)]


def _blanked(text: str, begin: int, end: int) -> str:
    return text[:begin] + _VISIBLE.sub(" ", text[begin:end]) + text[end:]
