"""Which bracket is at fault where brackets do not match: indentation says what was meant."""

from __future__ import annotations

import re
from dataclasses import dataclass

from archir.diagnostics.errors import Diagnostic, Note, Source, Span

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}
_BRACKET = re.compile(r"[()\[\]{}]")
_OPAQUE = re.compile(r'"[^"\n]*"|#[^\n]*')


def code(text: str) -> str:
    """The text without what comments and strings say; every other character stands where it stood."""
    return _OPAQUE.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    text = found[0]
    return f'"{"_" * (len(text) - 2)}"' if text[0] == '"' else " " * len(text)


@dataclass(frozen=True)
class _Fault:
    """A bracket at fault, and the place that shows it: where one that is not closed must have been."""

    start: int
    bracket: str
    shown: int


def mismatch(source: Source, plain: str, error: int) -> Diagnostic | None:
    """The bracket that explains a syntax error at an offset; None if brackets have nothing to do with it.

    `plain` is the source's `code`.
    """
    fault = None if _balanced(plain) else _fault(plain)
    if fault is None or fault.start > error or (fault.shown > error and "\n" in plain[fault.start : error]):
        return None
    span = Span(source, fault.start, fault.start + 1)
    if fault.bracket in _OPENING:
        return Diagnostic("A0102", f"this `{fault.bracket}` closes no `{_OPENING[fault.bracket]}`", span)
    wanted = _CLOSING[fault.bracket]
    note = Note(f"`{wanted}` is missing at the end of the file")
    if fault.shown < len(plain.rstrip()):
        note = Note(f"`{wanted}` is missing before this", Span(source, fault.shown, fault.shown + 1))
    return Diagnostic("A0102", f"this `{fault.bracket}` is not closed", span, None, (note,))


def _balanced(plain: str) -> bool:
    open_: list[str] = []
    for bracket in _BRACKET.findall(plain):
        if bracket in _CLOSING:
            open_.append(_CLOSING[bracket])
        elif not open_ or open_.pop() != bracket:
            return False
    return not open_


def _fault(plain: str) -> _Fault | None:
    """The first thing that is wrong with the brackets of a text; what comes behind it may follow from it."""
    open_: list[tuple[int, int]] = []  # where, and how far its line is indented
    begin = 0
    for line in plain.split("\n"):
        first = begin + len(line) - len(line.lstrip())
        indent = len(line[: first - begin].expandtabs(4))
        if line.strip() and open_ and indent <= open_[-1][1] and plain[first] not in _OPENING:
            return _Fault(open_[-1][0], plain[open_[-1][0]], first)
        for found in _BRACKET.finditer(line):
            bracket, start = found[0], begin + found.start()
            if bracket in _CLOSING:
                open_.append((start, indent))
                continue
            if all(plain[one] != _OPENING[bracket] for one, _ in open_):
                return _Fault(start, bracket, start)
            last, outer = open_.pop()
            if plain[last] != _OPENING[bracket] or (start == first and indent < outer):
                return _Fault(last, plain[last], start)
            if start == first and indent > outer and bracket == "}":
                return _Fault(start, bracket, start)
        begin += len(line) + 1
    return _Fault(open_[-1][0], plain[open_[-1][0]], len(plain)) if open_ else None
