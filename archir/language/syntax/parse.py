"""Parses program text to `ast.File`, or raises diagnostics that say what was expected where."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from lark import Token

from archir.diagnostics.errors import ArchError, Source, Span, fail
from archir.diagnostics.work import WorkError, current_budget
from archir.language.syntax import ast
from archir.language.syntax.layout import record_tokens
from archir.language.syntax.recovery import ParseResult, parse_recovering
from archir.language.syntax.strict_parse import ItemCache, ParseError, parse_source

MAX_BYTES = 2**20
"""Maximum size of a program in bytes (UTF-8)."""


def parse(text: str, name: str = "<input>", max_bytes: int = MAX_BYTES) -> ast.File:
    """Parse a program. Raises ArchError (A01xx) with all syntax errors that error recovery can tell apart."""
    result = parse_partial(text, name, max_bytes)
    if result.problems:
        raise ArchError(*result.problems)
    return result.file


def parse_partial(
    text: str, name: str = "<input>", max_bytes: int = MAX_BYTES, cache: ItemCache | None = None
) -> ParseResult:
    """Parse a program with error recovery: return the items that could be parsed, and diagnostics for the rest.

    Raises ArchError (A0105) if the text is too large. The result is cached in the work budget: within one budget,
    a text is parsed only once. Items that `cache` has from an earlier version of the text are not parsed again.
    """
    source, memo = Source(name, text), current_budget().cache
    _check_size(source, max_bytes)
    if ("parse", name, text) not in memo:
        with _parsing(source):
            memo["parse", name, text] = parse_recovering(source, cache.update(text) if cache is not None else None)
    result: ParseResult = memo["parse", name, text]
    return result


def tokens(text: str, name: str = "<input>") -> list[Token]:
    """Return the tokens of a program, without insignificant newlines. Raises ArchError (A01xx) if it has syntax
    errors."""
    source = Source(name, text)
    _check_size(source, MAX_BYTES)
    try:
        with _parsing(source), record_tokens() as recorded:
            parse_source(source)
    except ParseError:
        raise ArchError(*parse_partial(text, name).problems) from None
    return recorded


def _check_size(source: Source, max_bytes: int) -> None:
    """Raise ArchError (A0105) if a text is too large."""
    if len(source.text.encode("utf-8", "replace")) > max_bytes:
        raise fail("A0105", f"the source is larger than {max_bytes} bytes", Span(source, 0, 1))


@contextmanager
def _parsing(source: Source) -> Iterator[None]:
    """Context manager for parsing: turns garbage collection off, and gives WorkErrors a span at the start of the
    text."""
    collecting = gc.isenabled()
    gc.disable()  # parsing makes many small objects and no cycles: twice as fast without
    try:
        yield
    except WorkError as error:
        raise error.with_span(Span(source, 0, 1)) from None
    finally:
        if collecting:
            gc.enable()
