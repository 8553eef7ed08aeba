"""Bounds as they are written: parts of the most that a space costs become numbers, and what is wrong with a text is
said of it, not of what archir made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from fractions import Fraction

from archir.diagnostics.errors import ArchError, Diagnostic, Source, Span, listed, suggest
from archir.ir.graph import Constraint
from archir.language.elaboration.costs import BITS
from archir.language.elaboration.elaborate import elaborate_bounds
from archir.language.elaboration.locals import COSTS, latency_file

Place = Callable[[int, bool], int]
"""Where in a text a place is, given it in another one, and whether something ends there."""
NAME = "<where>"
_COST = r'latency\("[^"]*"(?:, ?confidence=[\d.]{1,18})?\)|\w+(?:\([^()]*\))?'
_PART = re.compile(rf"(?<!\w)(?:({_COST})\s*(?:<=|>=|<|>)\s*)(\d{{1,18}}(?:\.\d{{1,18}})?)x\b")
"""Linear: it begins where words do, and takes numbers that are short."""


def read_bounds(text: str, most: Callable[[str], int], paths: Iterable[str]) -> list[Constraint]:
    """The bounds of a text, given the most of each cost (`0.5x` is half of it, rounded down) and the paths of choices.

    Raises ArchError, with places in the text.
    """
    source, quoted = Source(NAME, text), text.replace("'", '"')
    choices = {word for path in paths for word in re.findall(r"[A-Za-z_]\w*", path)}
    made, pieces, done = "", [], 0
    for found in _PART.finditer(quoted):
        cost, part = found.groups()
        try:
            number = int(Fraction(part) * most(cost))
        except ArchError as error:
            raise _said(error, f"{cost} >= 0", source, _inside(found)) from None
        made += quoted[done : found.start(2)]
        written = f"{number}{'ns' if latency_file(cost) is not None else ''}"
        pieces.append((len(made), len(made) + len(written), found.start(2), found.end()))
        made, done = made + written, found.end()
    made += quoted[done:]

    def place(at: int, end: bool) -> int:
        """Where a place of the text with numbers is in the one that was written."""
        shift = 0
        for start, stop, before, after in pieces:
            if at <= start:
                break
            if at < stop:
                return after if end else before
            shift = after - stop
        return at + shift

    try:
        bounds = elaborate_bounds(made, NAME)
    except ArchError as error:
        told = _said(error, made, source, place)
        raise ArchError(*(_hinted(one, choices) for one in told.diagnostics)) from None
    return [replace(one, span=_moved(one.span, made, source, place)) for one in bounds]


def _inside(found: re.Match[str]) -> Place:
    """Places of a text that begins with the cost that was found."""
    return lambda at, _: min(found.start(1) + at, found.end(1))


def _said(error: ArchError, made: str, source: Source, place: Place) -> ArchError:
    """An error about a text that was made, said of the source."""
    return ArchError(
        *(
            replace(
                one,
                span=one.span and _moved(one.span, made, source, place),
                notes=tuple(
                    replace(note, span=note.span and _moved(note.span, made, source, place)) for note in one.notes
                ),
            )
            for one in error.diagnostics
        )
    )


def _moved(span: Span, made: str, source: Source, place: Place) -> Span:
    if span.source.name != NAME or span.source.text != made:
        return span
    return Span(source, place(span.start, False), place(span.end, True))


def _hinted(one: Diagnostic, choices: Collection[str]) -> Diagnostic:
    """A problem with what was meant: spellings of numbers that others have, and names that are no costs."""
    if one.span is None or one.span.source.name != NAME:
        return one
    if one.code == "A0201":
        name = one.span.text
        if name in choices:
            hint = f"bounds are on costs, and `{name}` is a choice: narrow it in the space, with `require`, {_EXAMPLE}"
            return replace(one, hint=hint)
        if name in BITS:
            return one
        return replace(one, hint=suggest(name, COSTS) or f"bounds are on costs: {listed(COSTS, len(COSTS))}")
    if one.code in ("A0101", "A0102", "A0305"):
        for pattern, say in _SPELLINGS:
            for found in pattern.finditer(one.span.source.text):
                if found.start() <= one.span.start <= found.end() and (meant := say(found)) is not None:
                    return replace(one, hint=meant)
    return one


_EXAMPLE = "such as `n = choose n(1, 2, 3)` and `require n == 2`"
_NUMBER = r"(?<![\w.])(\d{1,18}(?:\.\d{1,18})?)"
_UNITS = {"k": "K", "m": "M", "g": "G", "b": "G"}


def _short(number: Fraction) -> str | None:
    """A whole number with a suffix, as bounds are written."""
    if number.denominator != 1:
        return None
    for suffix, unit in (("G", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= unit and (number * 100 / unit).denominator == 1:
            return f"{float(number / unit):.12g}{suffix}"
    return str(number)


def _power(found: re.Match[str]) -> str | None:
    short = _short(Fraction(found[1]) * 10 ** int(found[2]))
    return short and f"numbers have suffixes, K, M and G: write `{short}`"


def _suffixed(found: re.Match[str]) -> str | None:
    written = found[1] + _UNITS[found[2].lower()]
    return f"numbers have suffixes, K, M and G: write `{written}`" if written != found[0] else None


def _grouped(found: re.Match[str]) -> str | None:
    return f"digits are grouped by `_`: write `{re.sub('[ ,]', '_', found[0])}`"


def _part(found: re.Match[str]) -> str:
    part = Fraction(found[1]) / 100
    return f"write `{float(part):.12g}x`: that part of the most that choices allow"


_SPELLINGS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]] = [
    (re.compile(rf"{_NUMBER}[eE]\+?(\d{{1,2}})\b"), _power),
    (re.compile(rf"{_NUMBER}\s*%\s*(?:and|or)?\s*"), _part),
    (re.compile(r"(?<![\w.])\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)\b"), _grouped),
    (re.compile(rf"{_NUMBER}\s*([kKmMgGbB])\b"), _suffixed),
    (re.compile(rf"{_NUMBER}\s+(ns|us|ms|x)\b"), lambda found: f"write `{found[1]}{found[2]}`"),
    (re.compile(r"[,;&]\s*"), lambda found: "join bounds with `and`: `macs <= 600M and params < 5M`"),
    (re.compile(r"=([<>])"), lambda found: f"write `{found[1]}=`"),
]
"""What others write, and what bounds have for it."""
