"""The words of a file: its tokens, what their brackets are for, and the space in front of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lark import Token

_TYPES = {"NAME", "INT", "FLOAT", "STRING", "TAG"}
_OPERANDS = {"NAME", "INT", "FLOAT", "STRING", "true", "false", "none", ")", "]", "}"}
"""Kinds that an operand ends with: a sign after one is binary, a bracket after one belongs to it."""
_TIGHT_AFTER = {"(", "[", ".", ".."}
_TIGHT_BEFORE = {")", "]", ",", ":", ".", ".."}
_DEFINITIONS = {"block", "cell", "net"}


@dataclass(frozen=True)
class Word:
    """A token.

    `kind` is NAME, INT, FLOAT, STRING, TAG, or the text itself. `role` says of an opening bracket what it is for:
    `params`, `call`, `index`, `group` (a list, a tuple, parentheses), `body` or `alternatives`. `before` is the text
    of the gap in front.
    """

    text: str
    kind: str
    before: str
    role: str = ""
    spaced: bool = False
    """Whether a space stands in front when the word before is on the same line."""
    unary: bool = False
    """Whether it is a sign of one operand."""
    separates: bool = False
    """Whether a newline that ends a statement or an alternative stands in front."""


class _Bracket:
    """An open bracket: its role, and how many words `match` in it wait for their alternatives."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.matches = 0


def words(tokens: Sequence[Token], text: str) -> list[Word]:
    """The words of a text's tokens."""
    solid = [token for token in tokens if token.type != "_NL"]
    kinds = [token.type if token.type in _TYPES else str(token) for token in solid]
    after_newline = {id(token) for before, token in pairwise(tokens) if before.type == "_NL"}
    found: list[Word] = []
    open_brackets = [_Bracket("body")]
    end = 0
    for i, (token, kind) in enumerate(zip(solid, kinds, strict=True)):
        start = token.start_pos or 0
        inner = open_brackets[-1]
        role = _role(kinds, i, inner)
        unary = kind in "+-" and (i == 0 or kinds[i - 1] not in _OPERANDS)
        spaced = i > 0 and not found[-1].unary and _spaced(kinds, i, role, inner.role)
        found.append(Word(str(token), kind, text[end:start], role, spaced, unary, id(token) in after_newline))
        inner.matches += kind == "match"
        if role:
            inner.matches -= role == "alternatives" and inner.matches > 0 and not _after_choose(kinds, i)
            open_brackets.append(_Bracket(role))
        elif kind in {")", "]", "}"}:
            open_brackets.pop()
        end = start + len(token)
    return found


def _role(kinds: Sequence[str], i: int, inner: _Bracket) -> str:
    operand_before = i > 0 and (kinds[i - 1] in _OPERANDS or kinds[i - 1] in {"TAG", "choose"})
    match kinds[i]:
        case "(" if i > 1 and kinds[i - 1] == "NAME" and kinds[i - 2] in _DEFINITIONS:
            return "params"
        case "(":
            return "call" if operand_before else "group"
        case "[":
            return "index" if operand_before else "group"
        case "{":
            return "alternatives" if inner.matches or _after_choose(kinds, i) else "body"
        case _:
            return ""


def _after_choose(kinds: Sequence[str], i: int) -> bool:
    """Whether word `i` comes after `choose`, a label and tags."""
    i -= 1
    while i > 0 and kinds[i] == "TAG":
        i -= 1
    return kinds[i] == "choose" or (i > 0 and kinds[i] == "NAME" and kinds[i - 1] == "choose")


def _spaced(kinds: Sequence[str], i: int, role: str, inside: str) -> bool:
    before, kind = kinds[i - 1], kinds[i]
    if before in _TIGHT_AFTER or kind in _TIGHT_BEFORE or role in {"params", "call", "index"}:
        return False
    if inside == "call" and "=" in (before, kind):
        return False
    if inside == "index" and before == ":":
        return False
    return not (_is_fraction(kinds, i) or _is_fraction(kinds, i - 1))


def _is_fraction(kinds: Sequence[str], i: int) -> bool:
    """Whether word `i` divides two numbers, as in `1/2`, and nothing binds closer to either."""
    if i < 1 or kinds[i - 1 : i + 2] != ["INT", "/", "INT"]:
        return False
    earlier = kinds[i - 2] if i > 1 else ""
    later = kinds[i + 2] if i + 2 < len(kinds) else ""
    return earlier not in {"/", "//", "%", "**"} and later != "**"
