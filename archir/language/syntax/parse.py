"""Parse text to `ast.File`, or raise diagnostics that say what was expected where."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from lark import Token

from archir.diagnostics.errors import ArchError, Source, Span, fail
from archir.diagnostics.work import WorkError, current_budget
from archir.language.syntax import ast
from archir.language.syntax.recovery import ParseResult, parse_recovering
from archir.language.syntax.strict_parse import ItemCache, ParseError, layout, parse_source

MAX_BYTES = 2**20
"""Maximum size of a program, in bytes of UTF-8."""


def parse(text: str, name: str = "<input>", max_bytes: int = MAX_BYTES) -> ast.File:
    """Return the syntax tree of a program. Raises ArchError (A01xx) with every mistake that recovery can separate."""
    result = parse_partial(text, name, max_bytes)
    if result.problems:
        raise ArchError(*result.problems)
    return result.file


def parse_partial(
    text: str, name: str = "<input>", max_bytes: int = MAX_BYTES, cache: ItemCache | None = None
) -> ParseResult:
    """Parse a program with error recovery: return the items that could be parsed and the diagnostics of the others.

    Raises ArchError (A0105) for texts that are too large. The result is cached in the work budget, so that within one
    budget a text is parsed once. Items that `cache` holds from the previous text are not parsed again.
    """
    memo = current_budget().cache
    if ("parse", name, text) not in memo:
        source = Source(name, text)
        with _parsing(source, max_bytes):
            memo["parse", name, text] = parse_recovering(source, cache.update(text) if cache is not None else None)
    result: ParseResult = memo["parse", name, text]
    return result


def tokens(text: str, name: str = "<input>") -> list[Token]:
    """Return the tokens of a program; of newlines (`_NL`) only those that separate. Raises ArchError (A01xx) as `parse`
    does."""
    source, newline_filter = Source(name, text), layout()
    recorded = newline_filter.record = []
    try:
        with _parsing(source, MAX_BYTES):
            parse_source(source)
    except ParseError:
        newline_filter.record = None
        raise ArchError(*parse_partial(text, name).problems) from None
    finally:
        newline_filter.record = None
    return recorded


@contextmanager
def _parsing(source: Source, max_bytes: int) -> Iterator[None]:
    """Check the size of a text, and parse it with the garbage collector off and errors of the work budget at its
    start."""
    if len(source.text.encode("utf-8", "replace")) > max_bytes:
        raise fail("A0105", f"the source is larger than {max_bytes} bytes", Span(source, 0, 1))
    collecting = gc.isenabled()
    gc.disable()  # parsing makes many small objects and no cycles: twice as fast without
    try:
        yield
    except WorkError as error:
        raise error.with_span(Span(source, 0, 1)) from None
    finally:
        if collecting:
            gc.enable()
