"""What may mend a program that can be read: another name, number or argument where a message points to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import pairwise

from archir.diagnostics.errors import Diagnostic, Source, Span
from archir.language.syntax.reading import reach
from archir.language.syntax.recovery import chunk
from archir.tools.fixing.changes import Change, drop, insert, replace, unlike
from archir.tools.lsp.words import Word, code_words

_IMPORT = re.compile(r"`(import [^`]+)`")
_NEEDS = re.compile(r"needs (?:a tensor )?`(\w+)`")
_STEPS = range(-8, 9)
_MOST = 60


def candidates(source: Source, problem: Diagnostic, names: list[str]) -> list[Change]:
    """Changes of a file that may mend what is wrong, the likeliest first; `names` are those that may be meant."""
    text, span = source.text, problem.span
    found = []
    if span is not None and span.source.name == source.name:
        found += [*_direct(problem), *_names(text, problem, span, names), *_called(problem, span, names)]
        found += [*_needed(text, problem, span, names)]
    lines = _lines(source, problem)
    found += [*_arguments(text, lines), *_numbers(text, problem, lines, source), *_words(text, lines)]
    return unlike(found, text)[:_MOST]


def _called(problem: Diagnostic, span: Span, names: list[str]) -> Iterator[Change]:
    """What may have been called, where something stands behind a pipe that cannot be."""
    if problem.code == "A0206":
        yield from (insert(span.start, name) for name in names if not name.isdigit())


def _direct(problem: Diagnostic) -> Iterator[Change]:
    for imported in _IMPORT.findall(problem.hint or ""):
        yield Change(f"`{imported}`", ((0, 0, f"{imported}\n"),))
    for note in problem.notes:
        if note.text == "is it this?" and note.span is not None:
            yield insert(note.span.start, "output ")


def _names(text: str, problem: Diagnostic, span: Span, names: list[str]) -> Iterator[Change]:
    """Another name for the one that means nothing; or for the only thing that is called nearly so, where the name is
    used more than once: then it is the definition that has a letter wrong."""
    if problem.code not in ("A0201", "A0203", "A0204", "A0212", "A0302", "A0804"):
        return
    found = code_words(text)
    at = next((word for word in found if word.start >= span.start and word.kind in ("name", "keyword")), None)
    if problem.code == "A0203":  # the name of an argument may stand before its value
        at = next((word for word in reversed(found) if word.start <= span.start and word.kind == "name"), at)
    if at is None:
        return
    if problem.edit is not None:
        at = Word("name", problem.edit[0].text, problem.edit[0].start)
    meant = [problem.edit[1]] if problem.edit is not None else []
    meant += get_close_matches(at.text, sorted({*names, *_written(found)} - {at.text}), n=5, cutoff=0.6)
    uses = sum(word.text == at.text for word in found)
    for name in dict.fromkeys(meant):
        places = [word for word in found if word.text == name]
        if len(places) == 1 and uses > 1:
            yield replace(places[0].start, places[0].end, name, at.text)
    for name in dict.fromkeys(meant):
        yield replace(at.start, at.end, at.text, name)
    for name in dict.fromkeys(meant):
        places = [word for word in found if word.text == name]
        if len(places) == 1:
            yield replace(places[0].start, places[0].end, name, at.text)


def _written(found: list[Word]) -> set[str]:
    return {word.text for word in found if word.kind == "name"}


def _arguments(text: str, lines: list[tuple[int, int]]) -> Iterator[Change]:
    """An argument less."""
    for line in lines:
        found = code_words(text, *line)
        depth: list[int] = []
        for number, word in enumerate(found):
            if word.text in "([":
                depth.append(number)
            elif word.text in ")]" and depth:
                begin = depth.pop()
                yield from _dropped(text, found[begin : number + 1])


def _needed(text: str, problem: Diagnostic, span: Span, names: list[str]) -> Iterator[Change]:
    """An argument more, where one is needed."""
    needed = _NEEDS.search(problem.message)
    if needed is None:
        return
    for call in re.finditer(r"\(", span.text):
        at = span.start + call.end()
        values = [needed[1], *names, "1", "2", "3"] if needed[1] in names else [*names, "1", "2", "3"]
        empty = text[at : at + 1] == ")"
        close = _closing(text, at)
        for value in values[:30]:
            yield insert(at, value if empty else f"{value}, ")
            if not empty and close is not None:
                yield insert(close, f", {value}")
                yield insert(close, f", {needed[1]}={value}")
        break


def _closing(text: str, at: int) -> int | None:
    depth = 1
    for word in code_words(text, at, min(len(text), at + 2_000)):
        depth += (word.text in "([{") - (word.text in ")]}")
        if depth == 0:
            return word.start
    return None


def _dropped(text: str, inside: list[Word]) -> Iterator[Change]:
    """Each item between brackets left out, those that stand there twice first."""
    items, depth, begin = [], 0, 1
    for number, word in enumerate(inside[1:], 1):
        depth += (word.text in "([{") - (word.text in ")]}")
        if (word.text == "," and depth == 0) or number == len(inside) - 1:
            if number > begin:
                items.append((inside[begin].start, inside[number - 1].end))
            begin = number + 1
    if len(items) < 2:
        return
    same = [n for n in range(1, len(items)) if text[slice(*items[n])] == text[slice(*items[n - 1])]]
    for number in dict.fromkeys([*same, *range(len(items) - 1, 0, -1)]):
        yield drop(items[number - 1][1], items[number][1], text[slice(*items[number])])


def _numbers(text: str, problem: Diagnostic, lines: list[tuple[int, int]], source: Source) -> Iterator[Change]:
    """Rounder numbers near those that are written where the message points to."""
    said = [int(number) for number in re.findall(r"(?<![\w.])\d{1,9}(?![\w.])", problem.message)]
    literals: list[Word] = []
    for note in problem.notes:
        if note.span is not None and note.span.source.name == source.name and note.text.endswith("is written here"):
            literals.append(Word("number", note.span.text, note.span.start))
    for line in lines:
        literals += [word for word in code_words(text, *line) if word.kind == "number" and word.text.isdigit()]
    ranked: list[tuple[float, Word, int]] = []
    for order, word in enumerate(dict.fromkeys(literals)):
        value = int(word.text)
        for other in dict.fromkeys([*(value + step for step in _STEPS), value // 2, *said]):
            if other > 0 and other != value and len(str(value)) < 10:
                told = value in said
                far = abs(other - value) / (1 if other in range(value - 8, value + 9) else 8)
                ranked.append((min(far, 12) - 2 * _roundness(other) - 6 * told + order, word, other))
    for _, word, other in sorted(ranked, key=lambda one: one[0]):
        yield replace(word.start, word.end, word.text, str(other))


def _roundness(value: int) -> int:
    """How often two divides a number."""
    return (value & -value).bit_length() - 1


def _lines(source: Source, problem: Diagnostic) -> list[tuple[int, int]]:
    """The lines of a file that a message points to: its span's, those of its notes, and calls that led there."""
    spans = [problem.span, *(note.span for note in problem.notes)]
    numbers = [one.line for one in spans if one is not None and one.source.name == source.name]
    called = rf"called at {re.escape(source.name)}:(\d+):"
    numbers += [int(line) for line in re.findall(called, "\n".join(note.text for note in problem.notes))]
    return [
        (source.starts[number - 1], source.starts[number - 1] + len(source.line(number)))
        for number in dict.fromkeys(numbers)
        if number <= len(source.starts)
    ]


def _words(text: str, lines: list[tuple[int, int]]) -> Iterator[Change]:
    """A word less, or two that change places, in the lines that the message points to."""
    for line in lines[:2]:
        found = code_words(text, *line)
        changes = []
        for one, other in pairwise(found):
            between = text[one.end : other.start]
            edits = ((one.start, other.end, f"{other.text}{between}{one.text}"),)
            changes.append(Change(f"swap `{one.text}` and `{other.text}`", edits))
        changes += [drop(word.start, word.end, word.text) for word in found]
        for change in unlike(changes, text):
            made = change.of(text)
            begin, end = chunk(made, line[0])
            if reach(made, begin, end) > end:
                yield change
