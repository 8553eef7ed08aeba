"""What may mend a text that cannot be read: a word less, more, or at its neighbour's place, near where reading ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic
from archir.language.syntax.reading import reach
from archir.language.syntax.recovery import chunk
from archir.tools.fixing.changes import Change, drop, insert, replace, unlike
from archir.tools.lsp.words import KEYWORDS, Word, code_words

_SIGNS = (",", ")", "(", "]", "[", "}", "{", "=", "|>", ":", ".", "=>", "..", "|", "+", "-", "*", "/", "==", "<=", '"')
_OPENING = {"(": ")", "[": "]", "{": "}"}
_BEFORE, _BEHIND = 4, 2
_MOST_READ = 600
"""Candidates that are read."""
_ITEMS = ("block", "cell", "net", "const", "import", "own block")
_PLACEHOLDER = "x_"


def candidates(text: str, problem: Diagnostic, names: list[str]) -> list[Change]:
    """Changes after which the item of the file with the problem can be read, the likeliest first."""
    if problem.span is None:
        return []
    readable, left = [], _MOST_READ
    for change in unlike(_changes(text, problem, reach(text, 0, len(text))), text):
        left -= 1
        if left < 0:
            break
        made = change.of(text)
        if _reads(made, change, text):
            readable.append(change)
    found = []
    for change in readable:
        if any(_PLACEHOLDER in new for _, _, new in change.edits):
            found += [_named(change, name) for name in names]
        else:
            found.append(change)
    return found


def _reads(made: str, change: Change, text: str) -> bool:
    at = min(start for start, _, _ in change.edits)
    begin, end = chunk(made, min(at, max(len(made) - 1, 0)))
    return reach(made, begin, end) > end


def _named(change: Change, name: str) -> Change:
    edits = tuple((start, end, new.replace(_PLACEHOLDER, name)) for start, end, new in change.edits)
    return Change(f"insert `{name}`", edits)


def _changes(text: str, problem: Diagnostic, at: int) -> Iterator[Change]:
    assert problem.span is not None
    places = [problem.span.start, at, *(note.span.start for note in problem.notes if note.span is not None)]
    found = code_words(text)
    numbers = []
    for place in dict.fromkeys(places):
        here = next((n for n, word in enumerate(found) if word.end > place), len(found))
        numbers += [n for n in range(here - _BEFORE, here + _BEHIND + 1) if 0 <= n < len(found)]
    near = list(dict.fromkeys(numbers))
    yield from _direct(problem)
    yield from _doubled(text, found, near)
    yield from _misspelled(found, near)
    yield from _swapped(text, found, near)
    yield from _closed(text, problem)
    yield from _inserted(text, found, near, _SIGNS)
    for number in near:
        yield drop(found[number].start, found[number].end, found[number].text)
    yield from _inserted(text, found, near, ("\n", _PLACEHOLDER, *sorted(KEYWORDS)))
    for number in near:
        if number + 1 < len(found):
            yield Change(
                f"drop `{found[number].text}` and `{found[number + 1].text}`",
                ((found[number].start, found[number + 1].end, ""),),
            )


def _direct(problem: Diagnostic) -> Iterator[Change]:
    if problem.edit is not None:
        span, new = problem.edit
        yield replace(span.start, span.end, span.text, new)
    if "comma missing" in (problem.hint or "") and problem.span is not None:
        before = problem.span.source.text[: problem.span.start].rstrip()
        yield insert(len(before), ",")


def _doubled(text: str, found: list[Word], near: list[int]) -> Iterator[Change]:
    """A word that stands there twice, or two that do."""
    for number in near:
        for many in (1, 2):
            first, second = found[number : number + many], found[number + many : number + 2 * many]
            if [one.text for one in first] == [one.text for one in second]:
                yield drop(first[-1].end, second[-1].end, " ".join(one.text for one in second))


def _misspelled(found: list[Word], near: list[int]) -> Iterator[Change]:
    """Words that are nearly keywords."""
    for number in near:
        word = found[number]
        if word.kind == "name":
            for keyword in KEYWORDS:
                if _alike(word.text, keyword):
                    yield replace(word.start, word.end, word.text, keyword)


def _alike(one: str, other: str) -> bool:
    """Whether a word is another with a letter more, less, or two that changed places."""
    if abs(len(one) - len(other)) > 1 or len(other) < 3:
        return False
    if sorted(one) == sorted(other):
        return sum(a != b for a, b in zip(one, other, strict=True)) == 2
    short, long = sorted((one, other), key=len)
    return len(short) < len(long) and any(long[:n] + long[n + 1 :] == short for n in range(len(long)))


def _swapped(text: str, found: list[Word], near: list[int]) -> Iterator[Change]:
    for number in near:
        if number + 1 < len(found):
            one, other = found[number], found[number + 1]
            between = text[one.end : other.start]
            edits = ((one.start, other.end, f"{other.text}{between}{one.text}"),)
            yield Change(f"swap `{one.text}` and `{other.text}`", edits)


def _closed(text: str, problem: Diagnostic) -> Iterator[Change]:
    """What closes a bracket, at the end of its line and of those that are indented deeper; or the bracket less."""
    span = problem.span
    assert span is not None
    if span.text not in _OPENING:
        return
    closing = _OPENING[span.text]
    begin = text.rfind("\n", 0, span.start) + 1
    indent = len(text[begin:]) - len(text[begin:].lstrip(" "))
    end = text.find("\n", span.start)
    end = len(text) if end < 0 else end
    if closing == "}":
        at = end
        for line in re.finditer(r"[^\n]*\n?", text[end + 1 :]):
            stripped = line[0].strip()
            if stripped and len(line[0]) - len(line[0].lstrip(" ")) <= indent:
                yield insert(at, f"\n{' ' * indent}}}")
                break
            if not line[0]:
                yield insert(len(text.rstrip()), f"\n{' ' * indent}}}")
                break
            if stripped:
                at = end + 1 + line.start() + len(line[0].rstrip())
        return
    code = text[:end].rstrip()
    for word in reversed(code_words(text, span.end, len(code))):
        yield insert(word.end, closing)


def _inserted(text: str, found: list[Word], near: list[int], new: tuple[str, ...]) -> Iterator[Change]:
    for word in new:
        for number in sorted(near, key=lambda n: -found[n].start):
            place = found[number]
            if word == "\n":
                line = text[text.rfind("\n", 0, place.start) + 1 : place.start]
                yield insert(place.start, "\n" + " " * (len(line) - len(line.lstrip(" "))))
                continue
            if word == "," and number:
                before = found[number - 1].end
                yield insert(before, "," if text[before] in " \n" else ", ")
                continue
            spaced = f"{word} " if word[0].isalnum() or word[0] not in "([.,)]" else word
            yield insert(place.start, spaced)
            if number + 1 == len(found) or "\n" in text[place.end : found[number + 1].start]:
                yield insert(place.end, word if word in ",)]" else f" {word}")
