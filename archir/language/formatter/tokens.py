"""Converts tokens to words, with bracket roles and the trivia and spacing before each word, and words to a tree of
brackets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from lark import Token

_TYPES = {"NAME", "INT", "FLOAT", "STRING", "TAG"}
_OPERANDS = {"NAME", "INT", "FLOAT", "STRING", "true", "false", "none", ")", "]", "}"}
"""Token kinds that can end an operand.

After such a token, a sign is binary, and a bracket starts a call or an index.
"""
_TIGHT_AFTER = {"(", "[", ".", ".."}
"""Token kinds that are not followed by a space."""
_TIGHT_BEFORE = {")", "]", ",", ":", ".", ".."}
"""Token kinds that are not preceded by a space."""
_DEFINITIONS = {"block", "cell", "net"}


@dataclass(frozen=True)
class Word:
    """Token with what the formatter needs to know about it.

    `kind` is NAME, INT, FLOAT, STRING or TAG, otherwise the text itself. `role` is the purpose of an opening
    bracket: `params`, `call`, `index`, `group` (list, tuple or parentheses), `body` or `alternatives`; "" for
    other tokens. `before` is the trivia (whitespace and comments) before the token.
    """

    text: str
    kind: str
    before: str
    role: str = ""
    spaced: bool = False
    """True if a space separates the word from the previous word on its line."""
    unary: bool = False
    """True if the word is a unary sign."""
    separates: bool = False
    """True if the word follows a newline that ends a statement or an alternative."""


class _OpenBracket:
    """Open bracket: its role, and the number of `match` keywords in it whose alternatives have not started yet."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.pending_matches = 0


def words(tokens: Sequence[Token], text: str) -> list[Word]:
    """Convert the tokens of a text to words."""
    visible = [token for token in tokens if token.type != "_NL"]
    kinds = [token.type if token.type in _TYPES else str(token) for token in visible]
    after_newline = {id(token) for before, token in pairwise(tokens) if before.type == "_NL"}
    result: list[Word] = []
    open_brackets = [_OpenBracket("body")]
    end = 0
    for i, (token, kind) in enumerate(zip(visible, kinds, strict=True)):
        start = token.start_pos or 0
        inner = open_brackets[-1]
        role = _role(kinds, i, inner)
        unary = kind in "+-" and (i == 0 or kinds[i - 1] not in _OPERANDS)
        spaced = i > 0 and not result[-1].unary and _spaced(kinds, i, role, inner.role)
        result.append(Word(str(token), kind, text[end:start], role, spaced, unary, id(token) in after_newline))
        inner.pending_matches += kind == "match"
        if role:
            inner.pending_matches -= (
                role == "alternatives" and inner.pending_matches > 0 and not _after_choose(kinds, i)
            )
            open_brackets.append(_OpenBracket(role))
        elif kind in {")", "]", "}"}:
            open_brackets.pop()
        end = start + len(token)
    return result


def _role(kinds: Sequence[str], i: int, inner: _OpenBracket) -> str:
    """Return the role of an opening bracket, "" for other tokens."""
    operand_before = i > 0 and (kinds[i - 1] in _OPERANDS or kinds[i - 1] in {"TAG", "choose"})
    match kinds[i]:
        case "(" if i > 1 and kinds[i - 1] == "NAME" and kinds[i - 2] in _DEFINITIONS:
            return "params"
        case "(":
            return "call" if operand_before else "group"
        case "[":
            return "index" if operand_before else "group"
        case "{":
            return "alternatives" if inner.pending_matches or _after_choose(kinds, i) else "body"
        case _:
            return ""


def _after_choose(kinds: Sequence[str], i: int) -> bool:
    """Return True if word `i` follows `choose`, an optional label, and any tags."""
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
    """Return True if word `i` is the `/` of a fraction of integers such as `1/2`, with no equally tight operator
    next to it."""
    if i < 1 or kinds[i - 1 : i + 2] != ["INT", "/", "INT"]:
        return False
    earlier = kinds[i - 2] if i > 1 else ""
    later = kinds[i + 2] if i + 2 < len(kinds) else ""
    return earlier not in {"/", "//", "%", "**"} and later != "**"


@dataclass
class Part:
    """Statement, alternative or list element.

    It consists of its pieces and of `before`, the trivia (whitespace and comments) before the first piece.
    """

    before: str = ""
    pieces: list[Piece] = field(default_factory=list)


@dataclass
class Bracket:
    """Bracket pair with the parts inside. `end` is the trivia (whitespace and comments) before the closing word
    `closed_by`."""

    opened_by: Word
    parts: list[Part] = field(default_factory=list)
    end: str = ""
    closed_by: str = ""
    trailing_comma: bool = False
    comprehension: bool = False

    @property
    def role(self) -> str:
        """Role of the bracket; see `Word`."""
        return self.opened_by.role

    @property
    def has_newline(self) -> bool:
        """True if there is a newline before any part or before the closing bracket."""
        return any("\n" in text for text in [self.end, *(part.before for part in self.parts)])


Piece: TypeAlias = Word | Bracket


def first(piece: Piece) -> Word:
    """Return the first word of a piece."""
    return piece.opened_by if isinstance(piece, Bracket) else piece


def bracket_tree(words: Iterable[Word], end: str) -> Bracket:
    """Build the bracket tree of a file; its root is a body without brackets. `end` is the trivia after the last
    word."""
    builder = _BracketBuilder(Word("", "", "", "body"))
    enclosing: list[_BracketBuilder] = []
    for word in words:
        if word.role:
            enclosing.append(builder)
            builder = _BracketBuilder(word)
        elif word.kind in {")", "]", "}"}:
            closed = builder.close(word.before, word.text)
            builder = enclosing.pop()
            builder.add(closed)
        elif builder.is_separator(word):
            builder.next_part(word.before)
        else:
            builder.add(word)
    return builder.close(end, "")


class _BracketBuilder:
    """Builds one bracket. `gap` is the trivia before the next part; None while inside a part."""

    def __init__(self, opened_by: Word) -> None:
        self.bracket = Bracket(opened_by)
        self.gap: str | None = ""

    def is_separator(self, word: Word) -> bool:
        is_list = self.bracket.role != "body" and not self.bracket.comprehension
        return word.kind == "," and is_list

    def next_part(self, gap: str) -> None:
        self.gap = gap

    def add(self, piece: Piece) -> None:
        word = first(piece)
        self.bracket.comprehension |= word.kind == "for" and self.bracket.role == "group"
        if word.separates and self.gap is None:
            self.gap = ""
        if self.gap is not None:
            self.bracket.parts.append(Part(self.gap + word.before))
            self.gap = None
        self.bracket.parts[-1].pieces.append(piece)

    def close(self, before: str, text: str) -> Bracket:
        self.bracket.trailing_comma = bool(self.bracket.parts) and self.gap is not None
        self.bracket.end = (self.gap or "") + before
        self.bracket.closed_by = text
        return self.bracket
