"""Parses net parameters given on the command line."""

from __future__ import annotations

from contextlib import suppress

from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.work import work_budget
from archir.diagrams.diagram import Value
from archir.language.elaboration.context import Context, LimitError, Limits
from archir.language.elaboration.elaborate import evaluate_constants
from archir.language.elaboration.evaluators import EVALUATORS
from archir.language.elaboration.files import Loader


def parse_parameter(text: str) -> tuple[str, Value]:
    """Parse a parameter such as `channels=96`, `ratio=1/4`, `form=imagenet` or `depths=[2, 2]` to its name and
    value.

    The value is an expression of the language, except that a bare word is a string. Raises ArchError (A1202).
    """
    name, equals, value_text = text.partition("=")
    name, value_text = name.strip(), value_text.strip()
    if not equals or not name.isidentifier() or not value_text:
        raise fail("A1202", f"a parameter is written name=value, got `{text}`")
    if value_text.isidentifier() and value_text not in ("true", "false", "none"):
        return name, value_text
    try:
        with work_budget():
            loader = Loader(None)
            module = loader.load(f"const value = {value_text}", "-p", None)
            context = Context(Limits(), module, name, loader, EVALUATORS)
            with suppress(LimitError):
                evaluate_constants(context, module)
        context.problems.raise_any()
    except ArchError as error:
        raise fail("A1202", f"`{value_text}` is not a value: {error.diagnostics[0].message}") from None
    return name, module.names["value"]
