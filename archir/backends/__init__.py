"""Backends: found by entry point, ours like anybody else's.

A backend is an import package whose attribute `BACKEND` offers what `Backend` says, registered under the entry-point
group `archir.backends`. Nothing in archir imports one by name.
"""

from __future__ import annotations

import sys
from collections.abc import Container
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from archir.diagnostics.errors import Diagnostic, fail, suggest
from archir.ir.graph import Graph
from archir.ir.needs import needs
from archir.ir.op import Composite, Op
from archir.ir.structure import Input, Mix, Select

if TYPE_CHECKING:
    from archir_onnx import OnnxBackend  # noqa: TID251  (a type, never imported)
    from archir_torch import TorchBackend  # noqa: TID251

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


def unlowered(
    graph: Graph, rules: Container[type[Op]], backend: str, *, mixtures: bool = False, choices: bool = False
) -> list[Diagnostic]:
    """What of a graph a backend with these lowering rules cannot lower: choices that are not made, other operations.

    `mixtures` says that the backend takes choices that are relaxed, `choices` that it takes those that are not made.
    """
    problems = []
    for number in sorted(needs(graph)):
        op, span = graph[number].op, graph[number].span
        if mixtures and isinstance(op, Mix):
            continue
        if choices and isinstance(op, Select):
            continue
        open_ = set() if choices else op.choices | ({op.choice} if isinstance(op, Select) else set())
        if open_:
            paths = ", ".join(f"`{path}`" for path in sorted(open_))
            problems.append(Diagnostic("A0901", f"{paths} must be chosen before the network is lowered", span))
        elif not isinstance(op, Input | Composite) and type(op) not in rules:
            problems.append(Diagnostic("A0904", f"the {backend} backend has no lowering of `{op.name}`", span))
    return problems


def names() -> list[str]:
    """The names of all backends there are."""
    return sorted(modules())


def modules() -> dict[str, str]:
    """The modules of all backends there are, by name."""
    return {**_BUNDLED, **_installed(tuple(sys.path))}


@cache
def _installed(_: tuple[str, ...]) -> dict[str, str]:
    """Modules of installed backends by name; all installed packages are looked through, so once for a path."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


@overload
def get(name: Literal["torch"]) -> TorchBackend: ...


@overload
def get(name: Literal["onnx"]) -> OnnxBackend: ...


@overload
def get(name: str) -> Any: ...


def get(name: str) -> Any:
    """The backend of a name. Raises ArchError (A0903) if there is none, or it cannot be loaded."""
    home = _installed(tuple(sys.path)).get(name) or _BUNDLED.get(name)
    if home is None:
        raise fail("A0903", f"there is no backend `{name}`", None, suggest(name, names()))
    try:
        return import_module(home.split(":")[0]).BACKEND
    except (ImportError, AttributeError) as error:
        raise fail("A0903", f"the backend `{name}` cannot be loaded: {error}") from error
