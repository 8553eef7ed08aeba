"""Which newlines count, and how deep brackets may nest: a filter between lexer and parser."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

from archir.diagnostics.errors import Diagnostic, Source, Span
from archir.diagnostics.work import spend

MOST_NESTING = 100
A_TOKEN, _MANY = 20, 256
"""Units of work for each token, and how many are counted at once."""
_OPEN = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_CLOSE = set(_OPEN.values())


class NestingError(Exception):
    """Brackets nest too deep."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self.token = token

    def diagnostic(self, source: Source) -> Diagnostic:
        """What to tell the user."""
        start = self.token.start_pos or 0
        message = f"brackets nest deeper than {MOST_NESTING} levels"
        return Diagnostic("A0104", message, Span(source, start, start + 1))


class Layout(PostLex):
    """Drops newlines inside `(` and `[`, after `{`, after a comma and at the start of the file."""

    always_accept = ("_NL", "NAME")  # a word is read to its end: `nettiny` is no `net`

    def __init__(self) -> None:
        self.kept: list[Token] | None = None
        """Where the tokens are kept, if anywhere."""

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens without the newlines that separate nothing."""
        brackets: list[str] = []
        before, kept, number = "LBRACE", self.kept, 0
        for number, token in enumerate(stream, 1):
            if number % _MANY == 0:
                spend(_MANY * A_TOKEN)
            if token.type == "_NL":
                inside = bool(brackets) and brackets[-1] != "RBRACE"
                if inside or before in ("LBRACE", "COMMA"):
                    continue
            elif token.type in _OPEN:
                brackets.append(_OPEN[token.type])
                if len(brackets) > MOST_NESTING:
                    raise NestingError(token)
            elif token.type in _CLOSE and brackets and brackets[-1] == token.type:
                brackets.pop()
            before = token.type
            if kept is not None:
                kept.append(token)
            yield token
        spend(number % _MANY * A_TOKEN)
