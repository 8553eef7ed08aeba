"""Backends: found by entry point, ours like anybody else's.

A backend is an import package whose attribute `BACKEND` offers what `Backend` says, registered under the entry-point
group `archir.backends`. Nothing in archir imports one by name.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

from archir.errors import Diagnostic, fail, suggest
from archir.ir.graph import Graph

GROUP = "archir.backends"
_BUNDLED = {"torch": "archir_torch", "onnx": "archir_onnx"}
"""Where the bundled backends are when archir runs from a source tree that is not installed."""


class Backend(Protocol):
    """What every backend offers; further abilities are its own."""

    name: str

    def supports(self, graph: Graph) -> list[Diagnostic]:
        """What of a graph cannot be lowered, with places; nothing if all of it can."""
        ...

    def lower(self, graph: Graph, *args: Any, **options: Any) -> Any:
        """The backend's form of a graph."""
        ...


def names() -> list[str]:
    """The names of all backends there are."""
    return sorted({*_BUNDLED, *(entry.name for entry in entry_points(group=GROUP))})


def get(name: str) -> Any:
    """The backend of a name. Raises ArchError (A0903) if there is none, or it cannot be loaded."""
    found = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    home = found.get(name) or _BUNDLED.get(name)
    if home is None:
        raise fail("A0903", f"there is no backend `{name}`", None, suggest(name, names()))
    try:
        return import_module(home.split(":")[0]).BACKEND
    except (ImportError, AttributeError) as error:
        raise fail("A0903", f"the backend `{name}` cannot be loaded: {error}") from error
