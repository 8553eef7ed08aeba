"""Text to `ast.File`, or diagnostics that say what was expected where."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from lark import Token

from archir.diagnostics.errors import ArchError, Source, Span, fail
from archir.diagnostics.work import WorkError, current
from archir.language.syntax import ast
from archir.language.syntax.reading import Kept, RefusedError, layout, read
from archir.language.syntax.recovery import Recovered, recovered

MOST_BYTES = 2**20


def parse(text: str, name: str = "<input>", most_bytes: int = MOST_BYTES) -> ast.File:
    """The syntax tree of a file's text. Raises ArchError (A01xx) with all mistakes that can be told apart."""
    found = partial(text, name, most_bytes)
    if found.problems:
        raise ArchError(*found.problems)
    return found.file


def partial(text: str, name: str = "<input>", most_bytes: int = MOST_BYTES, kept: Kept | None = None) -> Recovered:
    """What can be read of a text, and what is wrong with the rest. Raises ArchError for texts that are too large.

    Within a budget of work, a text is read once. What is `kept` of another text is not read again.
    """
    known = current().known
    if ("parse", name, text) not in known:
        source = Source(name, text)
        with _reading(source, most_bytes):
            known["parse", name, text] = recovered(source, kept.of(text) if kept is not None else None)
    found: Recovered = known["parse", name, text]
    return found


def tokens(text: str, name: str = "<input>") -> list[Token]:
    """The tokens of a text; of newlines (`_NL`), those that separate. Raises ArchError (A01xx) as `parse` does."""
    source, between = Source(name, text), layout()
    found = between.kept = []
    try:
        with _reading(source, MOST_BYTES):
            read(source)
    except RefusedError:
        between.kept = None
        raise ArchError(*partial(text, name).problems) from None
    finally:
        between.kept = None
    return found


@contextmanager
def _reading(source: Source, most_bytes: int) -> Iterator[None]:
    if len(source.text.encode("utf-8", "replace")) > most_bytes:
        raise fail("A0105", f"the source is larger than {most_bytes} bytes", Span(source, 0, 1))
    collecting = gc.isenabled()
    gc.disable()  # parsing makes many small objects and no cycles: twice as fast without
    try:
        yield
    except WorkError as error:
        raise error.at(Span(source, 0, 1)) from None
    finally:
        if collecting:
            gc.enable()
