"""Names as `.arch` files have them. Graphs come from files, too, and what is written of them is read by others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.structure import Input

LONGEST = 10_000
"""Characters of a name or a scope."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INDEX = r"(\[[0-9]{1,9}\])*"
_SCOPE = re.compile(rf"{_NAME.pattern}{_INDEX}(\.{_NAME.pattern}{_INDEX})*")


def is_name(text: str) -> bool:
    """Whether a text is a name: letters of ASCII, digits and `_`, no digit first."""
    return len(text) <= LONGEST and bool(_NAME.fullmatch(text))


def is_scope(text: str) -> bool:
    """Whether a text is a scope or a path, such as `layer[2][0].op.conv3`."""
    return len(text) <= LONGEST and bool(_SCOPE.fullmatch(text))


def require_names(graph: Graph) -> None:
    """Raise ArchError (A0908) unless what a graph calls its parts are names and scopes: code is written with them."""
    for what, text in _wrong(graph):
        hint = "names are made of letters, digits and `_`, as in .arch files"
        raise fail("A0908", f"{text[:100]!r} is no {what}: nothing can be written with it", None, hint)


def _wrong(graph: Graph) -> Iterator[tuple[str, str]]:
    labels = [op.label for number in graph if isinstance(op := graph[number].op, Input)]
    for text in (graph.name, *labels, *graph.outputs, *graph.blocks.values(), *graph.parameters):
        if not is_name(text):
            yield "name", text
    for text in ("", *graph.blocks, *(graph[number].scope for number in graph)):
        if text and not is_scope(text):
            yield "scope", text
