"""Token filter between lexer and parser: drops insignificant newlines and limits the nesting of brackets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lark import Token
from lark.lark import PostLex

from archir.diagnostics.errors import Diagnostic, Source, Span
from archir.diagnostics.work import spend

MAX_NESTING = 100
"""Maximum nesting depth of brackets."""
TOKEN_WORK, _TOKEN_BATCH = 20, 256
"""Work units per token, and the number of tokens that are charged at once."""
_OPEN = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_CLOSE = set(_OPEN.values())
_RECORD: ContextVar[list[Token] | None] = ContextVar("record", default=None)
"""List that collects the tokens passing the filter; None to collect none."""


@contextmanager
def record_tokens() -> Iterator[list[Token]]:
    """Context manager that yields a list; in the block, parsers append to it all tokens that pass the filter."""
    tokens: list[Token] = []
    reset = _RECORD.set(tokens)
    try:
        yield tokens
    finally:
        _RECORD.reset(reset)


class NestingError(Exception):
    """Raised if brackets nest deeper than `MAX_NESTING`."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self.token = token

    def diagnostic(self, source: Source) -> Diagnostic:
        """Return the diagnostic (A0104), whose span is the first bracket beyond the limit."""
        start = self.token.start_pos or 0
        message = f"brackets nest deeper than {MAX_NESTING} levels"
        return Diagnostic("A0104", message, Span(source, start, start + 1))


class Layout(PostLex):
    """Lexer post-processor that drops newlines inside `(` and `[`, after `{`, after commas, and at the start of the
    file."""

    always_accept = ("_NL", "NAME")  # so that the lexer reads words to their end: `nettiny` does not begin with `net`

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Yield the tokens without insignificant newlines. Raises NestingError."""
        brackets: list[str] = []
        previous, record, number = "LBRACE", _RECORD.get(), 0
        for number, token in enumerate(stream, 1):
            if number % _TOKEN_BATCH == 0:
                spend(_TOKEN_BATCH * TOKEN_WORK)
            if token.type == "_NL":
                inside = bool(brackets) and brackets[-1] != "RBRACE"
                if inside or previous in ("LBRACE", "COMMA"):
                    continue
            elif token.type in _OPEN:
                brackets.append(_OPEN[token.type])
                if len(brackets) > MAX_NESTING:
                    raise NestingError(token)
            elif token.type in _CLOSE and brackets and brackets[-1] == token.type:
                brackets.pop()
            previous = token.type
            if record is not None:
                record.append(token)
            yield token
        spend(number % _TOKEN_BATCH * TOKEN_WORK)
