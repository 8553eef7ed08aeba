"""Text to a tree, or the first thing that is wrong with its words and their order."""

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
from archir.language.syntax.unexpected import unexpected_character, unexpected_token
from archir_grammar import parser
from archir_grammar.reading import END, NotReadError, Reader

_ITEM = re.compile(r"^(?:own[ \t]+)?(?:block|cell|net|const|import)\b", re.MULTILINE)


class RefusedError(Exception):
    """A text that is none of the language: what to say of it, and the offset up to which it could be read."""

    def __init__(self, problem: Diagnostic, at: int) -> None:
        super().__init__(problem)
        self.problem, self.at = problem, at


Known = dict[tuple[int, str], ast.File]
"""Parts of a text that were read, by where they begin and what they say."""


class Kept:
    """What was read of one text, for the next: the items in front of the first difference are those of both."""

    def __init__(self) -> None:
        self.text = ""
        self.known: Known = {}

    def of(self, text: str) -> Known:
        """What is known of a text, which is the next one from now on."""
        low, high = 0, min(len(text), len(self.text)) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if text[low:middle] == self.text[low:middle] else (low, middle)
        self.known = {key: part for key, part in self.known.items() if key[0] + len(key[1]) <= low}
        self.text = text
        return self.known


def read(source: Source, shown: Source | None = None, known: Known | None = None) -> ast.File:
    """The tree of a text, its places those of `shown`, if there is one. Raises RefusedError with the first problem.

    Items that are `known` are not read again, and those that can be read become known.
    """
    try:
        if known is not None:
            parts = [_part(source.text, Builder(shown or source), *place, known) for place in parted(source.text)]
            return _joined(parts, Builder(shown or source))
    except NotReadError as error:
        if error.token is None or error.token.type != END:  # at its end an item may go on: the whole says how
            raise _refused(source, error) from None
    except (NestingError, ArchError):
        pass
    return _read(source, shown)


def parted(text: str) -> list[tuple[int, int]]:
    """A text, parted before each line that an item seems to begin with."""
    starts = [found.start() for found in _ITEM.finditer(text) if found.start()]
    return list(pairwise([0, *starts, len(text)]))


def _part(text: str, builder: Builder, begin: int, end: int, known: Known) -> ast.File:
    key = begin, text[begin:end]
    if key not in known:
        known[key] = _reader().read(text, builder, begin, end)
    return known[key]


def _joined(parts: list[ast.File], builder: Builder) -> ast.File:
    spans = [part.span for part in parts if part.span.end]
    place = (spans[0].start, spans[-1].end) if spans else (0, 0)
    return builder.start(place, [item for part in parts for item in part.items])


def _read(source: Source, shown: Source | None) -> ast.File:
    """As `read`, of the whole text at once."""
    try:
        file: ast.File = _reader().read(source.text, Builder(shown or source))
        return file
    except NotReadError as error:
        raise _refused(source, error) from None
    except NestingError as error:
        raise _nested(source, error) from None
    except ArchError as error:
        refused = RefusedError(error.diagnostics[0], _start(error))
    try:  # what is wrong with words and their order is said before anything else
        _reader().read(source.text, _Nothing())
    except NotReadError as error:
        refused = RefusedError(_refused(source, error).problem, refused.at)
    except NestingError as error:
        refused = RefusedError(_nested(source, error).problem, refused.at)
    raise refused


class _Nothing:
    """What rules mean where only their order counts."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda place, parts: None


def _refused(source: Source, error: NotReadError) -> RefusedError:
    if error.token is None:
        problem = unexpected_character(source, error.at, error.expected(), _spellings())
    else:
        problem = unexpected_token(source, error.token, error.expected(), _spellings())
    return RefusedError(problem, error.at)


def _nested(source: Source, error: NestingError) -> RefusedError:
    problem = error.diagnostic(source)
    return RefusedError(problem, problem.span.start if problem.span else 0)


def reach(text: str, begin: int, end: int) -> int:
    """Up to where the part `begin:end` of a text can be read: `end + 1` if it is a file by itself."""
    try:
        _reader().read(text, Builder(Source("", "")), begin, end)
    except NotReadError as error:
        return error.at
    except ArchError as error:
        return _start(error)
    except NestingError as error:
        return error.token.start_pos or 0
    return end + 1


def layout() -> Layout:
    """The filter between lexer and parser."""
    return _layout()


def _start(error: ArchError) -> int:
    span = error.diagnostics[0].span
    return span.start if span is not None else 0


@cache
def grammar() -> Lark:
    """The grammar as lark reads texts by it."""
    return parser(_layout())


@cache
def _reader() -> Reader:
    return Reader(grammar())


@cache
def _layout() -> Layout:
    return Layout()


@cache
def _spellings() -> dict[str, str]:
    return {t.name: t.pattern.value for t in grammar().terminals if t.pattern.type == "str"}
