"""Validation of names and scopes, which is a security measure.

Graphs may come from untrusted files, and code is generated from the names in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.structure import Input

MAX_NAME_LENGTH = 10_000
"""Maximum length of a name or a scope, in characters."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INDEX = r"(\[[0-9]{1,9}\])*"
_SCOPE = re.compile(rf"{_NAME.pattern}{_INDEX}(\.{_NAME.pattern}{_INDEX})*")


def is_name(text: str) -> bool:
    """Return whether a text is a valid name: ASCII letters, digits and `_`, and no digit first."""
    return len(text) <= MAX_NAME_LENGTH and bool(_NAME.fullmatch(text))


def is_scope(text: str) -> bool:
    """Return whether a text is a valid scope or path of a choice, such as `layer[2][0].op.conv3`."""
    return len(text) <= MAX_NAME_LENGTH and bool(_SCOPE.fullmatch(text))


def require_names(graph: Graph) -> None:
    """Raise ArchError (A0908) unless all names and scopes in a graph are valid, since generated code contains them."""
    for kind, text in _invalid_names(graph):
        hint = "names are made of letters, digits and `_`, as in .arch files"
        raise fail("A0908", f"{text[:100]!r} is not a valid {kind}: no code can be generated with it", None, hint)


def _invalid_names(graph: Graph) -> Iterator[tuple[str, str]]:
    labels = [op.label for number in graph if isinstance(op := graph[number].op, Input)]
    for text in (graph.name, *labels, *graph.outputs, *graph.blocks.values(), *graph.parameters):
        if not is_name(text):
            yield "name", text
    for text in ("", *graph.blocks, *(graph[number].scope for number in graph)):
        if text and not is_scope(text):
            yield "scope", text
