"""Diagnostics for syntax errors: the unexpected token, what was expected, and a hint on what to write instead.

If brackets do not match, indentation is evidence of the intended structure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from lark import Token

from archir.diagnostics.errors import Diagnostic, Note, Source, Span
from archir.diagnostics.hints import suggest
from archir.language.syntax.foreign_syntax import foreign_syntax_hint

Spellings = Mapping[str, str]
"""Maps the name of each terminal that is a fixed string to that string."""

_TERMINAL_NAMES = {
    "_NL": "the end of the line",
    "$END": "the end of the file",
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "TAG": "a tag",
    "SIGN": "`+`",
    "FACTOR": "`*`",
}
_GROUPS: list[tuple[str, set[str], set[str]]] = [
    (
        "an expression",
        {"NAME", "INT", "STRING", "LPAR", "LSQB"},
        {
            "NAME",
            "INT",
            "FLOAT",
            "STRING",
            "LPAR",
            "LSQB",
            "SIGN",
            "NOT",
            "TRUE",
            "FALSE",
            "NONE",
            "CHOOSE",
            "MATCH",
            "OWN",
        },
    ),
    (
        "an operator",
        {"SIGN", "FACTOR"},
        {
            "SIGN",
            "FACTOR",
            "POWER",
            "PIPE",
            "AND",
            "OR",
            "NOT",
            "IN",
            "IF",
            "LPAR",
            "LSQB",
            "DOT",
            "LESSTHAN",
            "MORETHAN",
            "__ANON_0",
            "__ANON_1",
            "__ANON_2",
            "__ANON_3",
            "__ANON_4",
        },
    ),
    (
        "a statement",
        {"NAME", "FOR", "RETURN", "REPEAT"},
        {"NAME", "FOR", "IF", "INPUT", "OUTPUT", "REPEAT", "REQUIRE", "RETURN"},
    ),
    ("a definition", {"BLOCK", "NET"}, {"BLOCK", "CELL", "CONST", "IMPORT", "NET", "OWN"}),
]
"""Summaries for sets of expected terminals: (description, terminals that must all be expected for it to apply,
terminals that it replaces)."""


def unexpected_character(source: Source, start: int, accepted: Set[str], spellings: Spellings) -> Diagnostic:
    """Return the diagnostic for a character that starts no token; `accepted` are the terminals that the parser
    accepts there."""
    char = source.text[start]
    span = Span(source, start, start + 1)
    if char == '"':
        hint = "strings have no escapes and no newlines"
        return Diagnostic("A0103", "this string does not end on its line", span, hint)
    shown = f"`{char}`" if char.isprintable() else f"character U+{ord(char):04X}"
    problem = Diagnostic("A0101", f"unexpected {shown}", span)
    if char == "\r":
        return replace(problem, hint="lines end with \\n or \\r\\n")
    return _with_hint(mask_text(source.text), problem, _spell(accepted, spellings))


def unexpected_token(source: Source, token: Token, accepted: Set[str], spellings: Spellings) -> Diagnostic:
    """Return the diagnostic for a token that the parser does not accept; `accepted` are the accepted terminals."""
    masked = mask_text(source.text)
    start = len(masked) if token.type == "$END" else token.start_pos or 0
    bracket = bracket_problem(source, masked, start)
    if bracket is not None:
        return bracket
    expected = f"expected {_expectation(accepted, spellings)}"
    last = len(masked[:start].rstrip())
    if token.type == "$END":
        return Diagnostic("A0102", f"the file ends too early: {expected}", Span(source, max(0, last - 1), last))
    at_line_end = token.type == "_NL" or (token.type in _AFTER_LINES and "\n" in masked[last:start])
    shown = "end of the line" if at_line_end else f"`{token}`"
    span = Span(source, last, last + 1) if at_line_end else Span(source, start, start + len(token))
    problem = Diagnostic("A0102", f"unexpected {shown}: {expected}", span)
    last_word = re.search(r"[a-z]+$", masked[:last])
    if (
        "NAME" in accepted
        and token.type in _AFTER_NAMES
        and last_word is not None
        and last_word[0] in spellings.values()
    ):
        lacks_name = last_word[0] == "output" and token.type == "EQUAL"
        return replace(
            problem, hint="outputs have names: `output y = x`" if lacks_name else f"`{last_word[0]}` is a keyword"
        )
    problem = _with_hint(masked, problem, _spell(accepted, spellings))
    if problem.hint is None and not at_line_end:
        problem = replace(problem, hint=_word_hint(token, accepted, spellings))
    return problem


_AFTER_LINES = {"RBRACE", "PIPE"}
"""Token types that may start a line without a newline token before them."""
_EXPRESSION_STARTS = {"NAME", "INT", "FLOAT", "STRING", "LSQB", "CHOOSE", "MATCH", "TRUE", "FALSE", "NONE", "NOT"}
"""Token types that can start an expression but not continue one."""
_AFTER_NAMES = {"EQUAL", "COMMA", "RPAR", "DOT", "COLON"}
"""Token types that usually follow names, so that a keyword before one of them was probably meant as a name."""


def _with_hint(masked: str, problem: Diagnostic, expected: Set[str]) -> Diagnostic:
    """Add a hint to a diagnostic if the error looks like syntax of another language."""
    assert problem.span is not None
    start = problem.span.start
    before, here = masked[:start].rpartition("\n")[2], masked[start:].partition("\n")[0]
    return replace(problem, hint=foreign_syntax_hint(expected, before, here))


def _word_hint(token: Token, accepted: Set[str], spellings: Spellings) -> str | None:
    """Return a hint for a misspelled keyword, a keyword used as a name, or a missing comma before an argument."""
    near = suggest(str(token), [spellings[name] for name in accepted if spellings.get(name, "").isalpha()])
    if token.type == "NAME" and near is not None:
        return near
    if str(token).isidentifier() and token.type != "NAME" and "NAME" in accepted:
        return f"`{token}` is a keyword"
    return "is a comma missing?" if "COMMA" in accepted and token.type in _EXPRESSION_STARTS else None


def _spell(accepted: Set[str], spellings: Spellings) -> set[str]:
    return {spellings.get(name, name) for name in accepted}


def _expectation(accepted: Set[str], spellings: Spellings) -> str:
    names = set(accepted)
    words = []
    for word, needed, covered in _GROUPS:
        if names >= needed:
            words.append(word)
            names -= covered
    shown = {_TERMINAL_NAMES.get(name) or f"`{spellings.get(name, name.lower())}`" for name in names}
    words += sorted(shown, key=lambda word: (word[0] == "`", word))
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words) or "something else"


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
    open_brackets: Counter[str] = Counter()
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
                open_brackets[bracket] += 1
                continue
            if not open_brackets[_OPENING[bracket]]:
                return _Fault(start, bracket, start)
            last, outer = stack.pop()
            open_brackets[masked[last]] -= 1
            if masked[last] != _OPENING[bracket] or (start == text_start and indent < outer):
                return _Fault(last, masked[last], start)
            if start == text_start and indent > outer and bracket == "}":
                return _Fault(start, bracket, start)
        line_start += len(line) + 1
    return _Fault(stack[-1][0], masked[stack[-1][0]], len(masked)) if stack else None
