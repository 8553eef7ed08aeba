"""Net parameters as they are written on a command line."""

from __future__ import annotations

from contextlib import suppress

from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.work import bounded
from archir.diagrams.cases import Value
from archir.language.elaboration.context import LimitError, Limits
from archir.language.elaboration.elaborate import Elaborator
from archir.language.elaboration.files import Loader


def parse_parameter(text: str) -> tuple[str, Value]:
    """`channels=96`, `ratio=1/4`, `form=imagenet`, `depths=[2, 2]`: the name, and the value as in a `.arch` file.

    A bare word is a string. Raises ArchError (A1202).
    """
    name, equals, written = text.partition("=")
    name, written = name.strip(), written.strip()
    if not equals or not name.isidentifier() or not written:
        raise fail("A1202", f"a parameter is written name=value, got `{text}`")
    if written.isidentifier() and written not in ("true", "false", "none"):
        return name, written
    try:
        with bounded():
            loader = Loader(None)
            module = loader.load(f"const value = {written}", "-p", None)
            context = Elaborator(Limits(), module, name, loader)
            with suppress(LimitError):
                context.constants(module)
        context.problems.raise_any()
    except ArchError as error:
        raise fail("A1202", f"`{written}` is no value: {error.diagnostics[0].message}") from None
    return name, module.names["value"]
