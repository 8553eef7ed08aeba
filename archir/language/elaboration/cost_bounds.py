"""Parses cost bounds, including fractions of the largest cost in a space (`macs <= 0.5x`).

Fractions are replaced by numbers before parsing; errors are reported at positions of the original text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from fractions import Fraction

from archir.diagnostics.errors import ArchError, Diagnostic, Source, Span, join_names
from archir.diagnostics.hints import suggest
from archir.ir.graph import Constraint
from archir.language.elaboration.cost_names import BITS, COSTS, LATENCY_HINT, latency_file, latency_name
from archir.language.elaboration.elaborate import elaborate_bounds

OffsetMap = Callable[[int, bool], int]
"""Maps an offset in the parsed text to one in the original text.

The second argument tells whether the offset is the end of a span.
"""
NAME = "<where>"
"""Source name of bounds in diagnostics."""
_COST = r'latency\("[^"]*"(?:, ?confidence=[\d.]{1,18})?\)|\w+(?:\([^()]*\))?'
_FRACTION = re.compile(rf"(?<!\w)(?:({_COST})\s*(?:<=|>=|<|>)\s*)(\d{{1,18}}(?:\.\d{{1,18}})?)x\b")
"""Matches a bound given by a fraction. Matching takes linear time, because it starts at word boundaries and the
number of digits is limited."""


def read_bounds(text: str, max_cost: Callable[[str], int], paths: Iterable[str]) -> list[Constraint]:
    """Parse a text of cost bounds.

    `max_cost` returns the largest value of a cost in the space; `0.5x` means half of that, rounded down. `paths`
    are the paths of the choices, used for hints. Raises ArchError with spans in `text`.
    """
    source, quoted = Source(NAME, text), text.replace("'", '"')
    choices = {word for path in paths for word in re.findall(r"[A-Za-z_]\w*", path)}
    parsed_text, pieces, done = "", [], 0
    for match in _FRACTION.finditer(quoted):
        cost, fraction = match.groups()
        try:
            number = int(Fraction(fraction) * max_cost(cost))
        except ArchError as error:
            raise _relocate_error(error, f"{cost} >= 0", source, _within_cost(match)) from None
        parsed_text += quoted[done : match.start(2)]
        number_text = f"{number}{'ns' if latency_file(cost) is not None else ''}"
        pieces.append((len(parsed_text), len(parsed_text) + len(number_text), match.start(2), match.end()))
        parsed_text, done = parsed_text + number_text, match.end()
    parsed_text += quoted[done:]

    def original_offset(at: int, end: bool) -> int:
        """Map an offset in the parsed text, where fractions are replaced by numbers, to the original text."""
        shift = 0
        for start, stop, before, after in pieces:
            if at <= start:
                break
            if at < stop:
                return after if end else before
            shift = after - stop
        return at + shift

    try:
        bounds = elaborate_bounds(parsed_text, NAME)
    except ArchError as error:
        relocated = _relocate_error(error, parsed_text, source, original_offset)
        raise ArchError(*(_with_hint(item, choices) for item in relocated.diagnostics)) from None
    return [replace(item, span=_relocate_span(item.span, parsed_text, source, original_offset)) for item in bounds]


def _within_cost(match: re.Match[str]) -> OffsetMap:
    """Return the offset map for a generated text that starts with the matched cost name."""
    return lambda at, _: min(match.start(1) + at, match.end(1))


def _relocate_error(error: ArchError, parsed_text: str, source: Source, offset_map: OffsetMap) -> ArchError:
    """Map the spans of an error in the parsed text back to the original text."""
    return ArchError(
        *(
            replace(
                problem,
                span=problem.span and _relocate_span(problem.span, parsed_text, source, offset_map),
                notes=tuple(
                    replace(note, span=note.span and _relocate_span(note.span, parsed_text, source, offset_map))
                    for note in problem.notes
                ),
            )
            for problem in error.diagnostics
        )
    )


def _relocate_span(span: Span, parsed_text: str, source: Source, offset_map: OffsetMap) -> Span:
    if span.source.name != NAME or span.source.text != parsed_text:
        return span
    return Span(source, offset_map(span.start, False), offset_map(span.end, True))


def _with_hint(problem: Diagnostic, choices: Collection[str]) -> Diagnostic:
    """Add a hint to a diagnostic on an unsupported number notation or on a name that is not a cost."""
    if problem.span is None or problem.span.source.name != NAME:
        return problem
    if problem.code == "A0201":
        name = problem.span.text
        if name in choices:
            hint = f"bounds are on costs, and `{name}` is a choice: narrow it in the space, with `require`, {_EXAMPLE}"
            return replace(problem, hint=hint)
        if name in BITS or problem.hint == LATENCY_HINT:
            return problem
        costs = [*COSTS, latency_name("FILE")]
        return replace(problem, hint=suggest(name, COSTS) or f"bounds are on costs: {join_names(costs, len(costs))}")
    if problem.code in ("A0101", "A0102", "A0305"):
        for pattern, hint_of in _SPELLINGS:
            for match in pattern.finditer(problem.span.source.text):
                if match.start() <= problem.span.start <= match.end() and (hint_text := hint_of(match)) is not None:
                    return replace(problem, hint=hint_text)
    return problem


_EXAMPLE = "such as `n = choose n(1, 2, 3)` and `require n == 2`"
_NUMBER = r"(?<![\w.])(\d{1,18}(?:\.\d{1,18})?)"
_UNITS = {"k": "K", "m": "M", "g": "G", "b": "G"}


def _suffixed_text(number: Fraction) -> str | None:
    """Return an integer as text with suffix K, M or G, if that is exact in two decimals; None for a fraction."""
    if number.denominator != 1:
        return None
    for suffix, unit in (("G", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= unit and (number * 100 / unit).denominator == 1:
            return f"{float(number / unit):.12g}{suffix}"
    return str(number)


def _power(match: re.Match[str]) -> str | None:
    short = _suffixed_text(Fraction(match[1]) * 10 ** int(match[2]))
    return short and f"numbers have suffixes, K, M and G: write `{short}`"


def _suffixed(match: re.Match[str]) -> str | None:
    number_text = match[1] + _UNITS[match[2].lower()]
    return f"numbers have suffixes, K, M and G: write `{number_text}`" if number_text != match[0] else None


def _grouped(match: re.Match[str]) -> str | None:
    return f"digits are grouped by `_`: write `{re.sub('[ ,]', '_', match[0])}`"


def _part(match: re.Match[str]) -> str:
    part = Fraction(match[1]) / 100
    return f"write `{float(part):.12g}x`: that fraction of the largest cost in the space"


_SPELLINGS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]] = [
    (re.compile(rf"{_NUMBER}[eE]\+?(\d{{1,2}})\b"), _power),
    (re.compile(rf"{_NUMBER}\s*%\s*(?:and|or)?\s*"), _part),
    (re.compile(r"(?<![\w.])\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)\b"), _grouped),
    (re.compile(rf"{_NUMBER}\s*([kKmMgGbB])\b"), _suffixed),
    (re.compile(rf"{_NUMBER}\s+(ns|us|ms|x)\b"), lambda match: f"write `{match[1]}{match[2]}`"),
    (re.compile(r"[,;&]\s*"), lambda match: "join bounds with `and`: `macs <= 600M and params < 5M`"),
    (re.compile(r"=([<>])"), lambda match: f"write `{match[1]}=`"),
]
"""Patterns of unsupported notations in bounds, each with a function that returns the hint."""
