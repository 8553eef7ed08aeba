"""Syntax errors: what was not expected, what was, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import replace

from lark import Token

from archir.diagnostics.errors import Diagnostic, Source, Span, suggest
from archir.language.syntax.brackets import code, mismatch
from archir.language.syntax.habits import habit

Spellings = Mapping[str, str]
"""How terminals are written that are written in one way, by their names."""

_WORDS = {
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
"""What is expected, in a word: the terminals that are all accepted then, and all those that the word covers."""


def unexpected_character(source: Source, start: int, accepted: Set[str], spellings: Spellings) -> Diagnostic:
    """What to say of a character that begins no word of the language; `accepted` are the terminals that could."""
    char = source.text[start]
    span = Span(source, start, start + 1)
    if char == '"':
        hint = "strings have no escapes and no newlines"
        return Diagnostic("A0103", "this string does not end on its line", span, hint)
    shown = f"`{char}`" if char.isprintable() else f"character U+{ord(char):04X}"
    problem = Diagnostic("A0101", f"unexpected {shown}", span)
    if char == "\r":
        return replace(problem, hint="lines end with \\n or \\r\\n")
    return _explained(code(source.text), problem, _written(accepted, spellings))


def unexpected_token(source: Source, token: Token, accepted: Set[str], spellings: Spellings) -> Diagnostic:
    """What to say of a word at a place where it cannot stand, but other terminals can."""
    plain = code(source.text)
    start = len(plain) if token.type == "$END" else token.start_pos or 0
    bracket = mismatch(source, plain, start)
    if bracket is not None:
        return bracket
    expected = f"expected {_expectation(accepted, spellings)}"
    last = len(plain[:start].rstrip())
    if token.type == "$END":
        return Diagnostic("A0102", f"the file ends too early: {expected}", Span(source, max(0, last - 1), last))
    ends = token.type == "_NL" or (token.type in _AFTER_LINES and "\n" in plain[last:start])
    shown = "end of the line" if ends else f"`{token}`"
    span = Span(source, last, last + 1) if ends else Span(source, start, start + len(token))
    problem = Diagnostic("A0102", f"unexpected {shown}: {expected}", span)
    used = re.search(r"[a-z]+$", plain[:last])
    if "NAME" in accepted and token.type in _AFTER_NAMES and used is not None and used[0] in spellings.values():
        named = used[0] == "output" and token.type == "EQUAL"
        return replace(problem, hint="outputs have names: `output y = x`" if named else f"`{used[0]}` is a keyword")
    problem = _explained(plain, problem, _written(accepted, spellings))
    if problem.hint is None and not ends:
        problem = replace(problem, hint=_about_word(token, accepted, spellings))
    return problem


_AFTER_LINES = {"RBRACE", "PIPE"}
"""Words before which a newline is no word."""
_BEGINNINGS = {"NAME", "INT", "FLOAT", "STRING", "LSQB", "CHOOSE", "MATCH", "TRUE", "FALSE", "NONE", "NOT"}
"""Words that expressions begin with, and cannot go on with."""
_AFTER_NAMES = {"EQUAL", "COMMA", "RPAR", "DOT", "COLON"}
"""Words before which a keyword was meant as a name."""


def _explained(plain: str, problem: Diagnostic, expected: Set[str]) -> Diagnostic:
    assert problem.span is not None
    start = problem.span.start
    before, here = plain[:start].rpartition("\n")[2], plain[start:].partition("\n")[0]
    return replace(problem, hint=habit(expected, before, here))


def _about_word(token: Token, accepted: Set[str], spellings: Spellings) -> str | None:
    """A hint on a word that is nearly a keyword, is one, or begins an argument behind another one."""
    near = suggest(str(token), [spellings[name] for name in accepted if spellings.get(name, "").isalpha()])
    if token.type == "NAME" and near is not None:
        return near
    if str(token).isidentifier() and token.type != "NAME" and "NAME" in accepted:
        return f"`{token}` is a keyword"
    return "is a comma missing?" if "COMMA" in accepted and token.type in _BEGINNINGS else None


def _written(accepted: Set[str], spellings: Spellings) -> set[str]:
    return {spellings.get(name, name) for name in accepted}


def _expectation(accepted: Set[str], spellings: Spellings) -> str:
    names = set(accepted)
    words = []
    for word, needed, covered in _GROUPS:
        if names >= needed:
            words.append(word)
            names -= covered
    shown = {_WORDS.get(name) or f"`{spellings.get(name, name.lower())}`" for name in names}
    words += sorted(shown, key=lambda word: (word[0] == "`", word))
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words) or "something else"
