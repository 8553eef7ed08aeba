"""Text to a tree, or the first thing that is wrong with its words and their order."""

from __future__ import annotations

from functools import cache

from lark import Lark, UnexpectedCharacters, UnexpectedToken
from lark.exceptions import UnexpectedEOF

from archir.base.errors import ArchError, Diagnostic, Source, Span
from archir.language.syntax import ast
from archir.language.syntax.builder import Builder
from archir.language.syntax.layout import Layout, NestingError
from archir.language.syntax.unexpected import unexpected_character, unexpected_token
from archir_grammar import parser
from archir_grammar.reading import NotReadError, Reader


class RefusedError(Exception):
    """A text that is none of the language: what to say of it, and the offset up to which it could be read."""

    def __init__(self, problem: Diagnostic, at: int) -> None:
        super().__init__(problem)
        self.problem, self.at = problem, at


def read(source: Source, shown: Source | None = None) -> ast.File:
    """The tree of a text, its places those of `shown`, if there is one. Raises RefusedError with the first problem."""
    text = source.text
    try:
        file: ast.File = _reader().read(text, Builder(shown or source))
        return file
    except (NotReadError, ArchError) as error:
        at = error.at if isinstance(error, NotReadError) else _start(error)
        try:  # what is wrong with words and their order is said before anything else
            grammar().parse(text)
        except UnexpectedCharacters as found:
            problem = unexpected_character(source, found, _spellings())
        except UnexpectedToken as found:
            problem = unexpected_token(source, found, _spellings())
        except UnexpectedEOF:
            problem = Diagnostic("A0102", "the file ends too early", Span(source, len(text), len(text)))
        else:
            if not isinstance(error, ArchError):
                raise
            problem = error.diagnostics[0]
        raise RefusedError(problem, at) from None
    except NestingError as error:
        problem = error.diagnostic(source)
        raise RefusedError(problem, problem.span.start if problem.span else 0) from None


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
