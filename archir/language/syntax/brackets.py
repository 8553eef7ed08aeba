"""Locates the faulty bracket if brackets do not match, using indentation as evidence of the intended structure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from archir.diagnostics.errors import Diagnostic, Note, Source, Span

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OPENING = {closing: opening for opening, closing in _CLOSING.items()}
_BRACKET = re.compile(r"[()\[\]{}]")
_STRING_OR_COMMENT = re.compile(r'"[^"\n]*"|#[^\n]*')


def mask_text(text: str) -> str:
    """Mask the contents of strings and comments; all other characters keep their offsets."""
    return _STRING_OR_COMMENT.sub(_mask, text)


def _mask(match: re.Match[str]) -> str:
    text = match[0]
    return f'"{"_" * (len(text) - 2)}"' if text[0] == '"' else " " * len(text)


@dataclass(frozen=True)
class _Fault:
    """Faulty bracket at offset `start`.

    `evidence` is the offset that proves the fault: the point before which an opening bracket should have been
    closed, or, for a closing bracket without an opening one, `start` itself.
    """

    start: int
    bracket: str
    evidence: int


def bracket_problem(source: Source, masked: str, error: int) -> Diagnostic | None:
    """Return a diagnostic (A0102) for the unmatched bracket that explains a syntax error at offset `error`.

    Returns None if brackets do not explain the error. `masked` is the source text as returned by `mask_text`.
    """
    fault = None if _balanced(masked) else _first_fault(masked)
    if fault is None or fault.start > error or (fault.evidence > error and "\n" in masked[fault.start : error]):
        return None
    span = Span(source, fault.start, fault.start + 1)
    if fault.bracket in _OPENING:
        return Diagnostic("A0102", f"this `{fault.bracket}` closes no `{_OPENING[fault.bracket]}`", span)
    closing = _CLOSING[fault.bracket]
    note = Note(f"`{closing}` is missing at the end of the file")
    if fault.evidence < len(masked.rstrip()):
        note = Note(f"`{closing}` is missing before this", Span(source, fault.evidence, fault.evidence + 1))
    return Diagnostic("A0102", f"this `{fault.bracket}` is not closed", span, None, (note,))


def _balanced(masked: str) -> bool:
    stack: list[str] = []
    for bracket in _BRACKET.findall(masked):
        if bracket in _CLOSING:
            stack.append(_CLOSING[bracket])
        elif not stack or stack.pop() != bracket:
            return False
    return not stack


def _first_fault(masked: str) -> _Fault | None:
    """Return the first bracket fault in a masked text, or None; later faults may be consequences of the first."""
    stack: list[tuple[int, int]] = []  # offset of each open bracket, and the indentation of its line
    line_start = 0
    for line in masked.split("\n"):
        text_start = line_start + len(line) - len(line.lstrip())
        indent = len(line[: text_start - line_start].expandtabs(4))
        if line.strip() and stack and indent <= stack[-1][1] and masked[text_start] not in _OPENING:
            return _Fault(stack[-1][0], masked[stack[-1][0]], text_start)
        for match in _BRACKET.finditer(line):
            bracket, start = match[0], line_start + match.start()
            if bracket in _CLOSING:
                stack.append((start, indent))
                continue
            if all(masked[offset] != _OPENING[bracket] for offset, _ in stack):
                return _Fault(start, bracket, start)
            last, outer = stack.pop()
            if masked[last] != _OPENING[bracket] or (start == text_start and indent < outer):
                return _Fault(last, masked[last], start)
            if start == text_start and indent > outer and bracket == "}":
                return _Fault(start, bracket, start)
        line_start += len(line) + 1
    return _Fault(stack[-1][0], masked[stack[-1][0]], len(masked)) if stack else None
