"""Parses program text to a tree without error recovery: raises the first syntax error."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise

from lark import Lark

from archir.diagnostics.errors import ArchError, Diagnostic, Source
from archir.language.syntax import ast
from archir.language.syntax.builder import Builder
from archir.language.syntax.layout import Layout, NestingError
from archir_grammar import parser
from archir_grammar.reading import END, NotReadError, Reader

_ITEM = re.compile(r"^(?:own[ \t]+)?(?:block|cell|net|const|import)\b", re.MULTILINE)
"""Matches the keywords that start a top-level item, at the start of a line."""


class ParseError(Exception):
    """Syntax error: its diagnostic, and the offset `at` that the parser had reached."""

    def __init__(self, problem: Diagnostic, at: int) -> None:
        super().__init__(problem)
        self.problem, self.at = problem, at


ParsedItems = dict[tuple[int, str], ast.File]
"""Cache of parsed top-level items: maps (start offset, item text) to the tree."""


class ItemCache:
    """Cache for incremental parsing: items before the first change to a text are not parsed again."""

    def __init__(self) -> None:
        self.text = ""
        self.items: ParsedItems = {}

    def update(self, text: str) -> ParsedItems:
        """Set the current text; return the cached items that are still valid.

        The parser then adds newly parsed items to the returned items.
        """
        low, high = 0, min(len(text), len(self.text)) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if text[low:middle] == self.text[low:middle] else (low, middle)
        self.items = {key: part for key, part in self.items.items() if key[0] + len(key[1]) <= low}
        self.text = text
        return self.items


def parse_source(source: Source, span_source: Source | None = None, cache: ParsedItems | None = None) -> ast.File:
    """Parse a source to a syntax tree. Raises ParseError with the first syntax error.

    Spans refer to `span_source` if given, else to `source`. Items found in `cache` are not parsed again; newly
    parsed items are added to it.
    """
    try:
        if cache is not None:
            parts = [
                _parse_item(source.text, Builder(span_source or source), *place, cache)
                for place in split_items(source.text)
            ]
            return _join_items(parts, Builder(span_source or source))
    except NotReadError as error:
        # an error at the end of an item is left to the parse of the whole text, where the item may continue
        if error.token is None or error.token.type != END:
            raise _syntax_error(source, error) from None
    except (NestingError, ArchError):
        pass
    return _parse_whole(source, span_source)


def split_items(text: str) -> list[tuple[int, int]]:
    """Split a text before each line that looks like the start of a top-level item; return (start, end) offsets."""
    starts = [match.start() for match in _ITEM.finditer(text) if match.start()]
    return list(pairwise([0, *starts, len(text)]))


def _parse_item(text: str, builder: Builder, begin: int, end: int, cache: ParsedItems) -> ast.File:
    key = begin, text[begin:end]
    if key not in cache:
        cache[key] = _reader().read(text, builder, begin, end)
    return cache[key]


def _join_items(parts: list[ast.File], builder: Builder) -> ast.File:
    spans = [part.span for part in parts if part.span.end]
    place = (spans[0].start, spans[-1].end) if spans else (0, 0)
    return builder.start(place, [item for part in parts for item in part.items])


def _parse_whole(source: Source, span_source: Source | None) -> ast.File:
    """Parse a text as a whole, not item by item. Raises ParseError with the first syntax error."""
    try:
        file: ast.File = _reader().read(source.text, Builder(span_source or source))
        return file
    except NotReadError as error:
        raise _syntax_error(source, error) from None
    except NestingError as error:
        raise _nesting_error(source, error) from None
    except ArchError as error:
        parse_error = ParseError(error.diagnostics[0], _start(error))
    try:  # errors of the grammar take precedence over errors of the builder, such as numbers that are too large
        _reader().read(source.text, _NullBuilder())
    except NotReadError as error:
        parse_error = ParseError(_syntax_error(source, error).problem, parse_error.at)
    except NestingError as error:
        parse_error = ParseError(_nesting_error(source, error).problem, parse_error.at)
    raise parse_error


class _NullBuilder:
    """Builder that builds nothing, for parsing only to find grammar errors."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda place, parts: None


def _syntax_error(source: Source, error: NotReadError) -> ParseError:
    """Convert an error of the table-driven parser to a ParseError with a diagnostic."""
    from archir.language.syntax.syntax_errors import unexpected_character, unexpected_token

    if error.token is None:
        problem = unexpected_character(source, error.at, error.expected(), _spellings())
    else:
        problem = unexpected_token(source, error.token, error.expected(), _spellings())
    return ParseError(problem, error.at)


def _nesting_error(source: Source, error: NestingError) -> ParseError:
    problem = error.diagnostic(source)
    return ParseError(problem, problem.span.start if problem.span else 0)


def parsed_until(text: str, begin: int, end: int) -> int:
    """Return the offset up to which text[begin:end] can be parsed; `end + 1` if all of it can."""
    try:
        _reader().read(text, Builder(Source("", "")), begin, end)
    except NotReadError as error:
        return error.at
    except ArchError as error:
        return _start(error)
    except NestingError as error:
        return error.token.start_pos or 0
    return end + 1


def _start(error: ArchError) -> int:
    span = error.diagnostics[0].span
    return span.start if span is not None else 0


@cache
def grammar() -> Lark:
    """Return the grammar as a lark parser."""
    return parser(Layout())


@cache
def _reader() -> Reader:
    return Reader(grammar())


@cache
def _spellings() -> dict[str, str]:
    return {t.name: t.pattern.value for t in grammar().terminals if t.pattern.type == "str"}
