"""Backends, discovered by entry point; the bundled ones are registered in the same way as those of plugins.

A backend is an import package with an attribute `BACKEND` that implements `Backend`, registered in the
entry-point group `archir.backends`. archir itself imports no backend by name.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from archir.diagnostics.errors import Diagnostic, Span, fail, join_names
from archir.diagnostics.hints import suggest
from archir.ir.graph import Graph
from archir.ir.op import Composite, Op
from archir.ir.reachability import reachability_conditions
from archir.ir.structure import Input, Mix, Select
from archir.plugins.registry import Registry

if TYPE_CHECKING:
    from archir_onnx import OnnxBackend  # noqa: TID251  (a type, never imported)
    from archir_torch import TorchBackend  # noqa: TID251

GROUP = "archir.backends"
"""Entry-point group of backends."""
_BUNDLED = {"torch": "archir_torch", "onnx": "archir_onnx"}
"""Modules of the bundled backends, used if archir runs from a source tree without being installed."""


class Backend(Protocol):
    """Interface that every backend implements; backends may have additional methods."""

    name: str

    def supports(self, graph: Graph) -> list[Diagnostic]:
        """Return a diagnostic for each node that cannot be lowered; [] if the graph is supported."""
        ...

    def lower(self, graph: Graph, *args: Any, **options: Any) -> Any:
        """Lower a graph to the backend's representation."""
        ...


def unlowered(
    graph: Graph, rules: Registry[type[Op], Any], backend: str, *, mixtures: bool = False, choices: bool = False
) -> list[Diagnostic]:
    """Return a diagnostic for each place in the source that a backend cannot lower.

    `rules` are the operations for which the backend has lowering rules, `backend` is its name in messages. Diagnostics
    report operations without a lowering rule (A0904) and choices (A0901). Relaxed choices are accepted if `mixtures` is
    set, and all choices are accepted if `choices` is set.
    """
    problems: list[Diagnostic] = []
    open_paths: dict[Span, dict[str, None]] = {}
    for number in sorted(reachability_conditions(graph)):
        op, span = graph[number].op, graph[number].span
        if mixtures and isinstance(op, Mix):
            continue
        if choices and isinstance(op, Select):
            continue
        open_ = set() if choices else op.choices | ({op.choice} if isinstance(op, Select) else set())
        if open_:
            open_paths.setdefault(span, {}).update(dict.fromkeys(sorted(open_)))
        elif not isinstance(op, Input | Composite) and rules.find(type(op)) is None:
            problems.append(Diagnostic("A0904", f"the {backend} backend has no lowering of `{op.name}`", span))
    return problems + [
        Diagnostic("A0901", f"{join_names([*paths], 4)} must be chosen before the network is lowered", span)
        for span, paths in open_paths.items()
    ]


def names() -> list[str]:
    """Return the names of all available backends in alphabetical order."""
    return sorted(modules())


def modules() -> dict[str, str]:
    """Return the modules of all available backends, by backend name."""
    return {**_BUNDLED, **_installed(tuple(sys.path))}


@cache
def _installed(_: tuple[str, ...]) -> dict[str, str]:
    """Return the modules of installed backends, by backend name. Cached per `sys.path`, as it searches all installed
    packages."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


@overload
def get(name: Literal["torch"]) -> TorchBackend:
    """Return a backend by name. Raises ArchError (A0903) if it does not exist or cannot be loaded."""


@overload
def get(name: Literal["onnx"]) -> OnnxBackend:
    """Return a backend by name. Raises ArchError (A0903) if it does not exist or cannot be loaded."""


@overload
def get(name: str) -> Any:
    """Return a backend by name. Raises ArchError (A0903) if it does not exist or cannot be loaded."""


def get(name: str) -> Any:
    """Return a backend by name. Raises ArchError (A0903) if it does not exist or cannot be loaded."""
    location = _installed(tuple(sys.path)).get(name) or _BUNDLED.get(name)
    if location is None:
        raise fail("A0903", f"there is no backend `{name}`", None, suggest(name, names()))
    try:
        return import_module(location.split(":")[0]).BACKEND
    except (ImportError, AttributeError) as error:
        raise fail("A0903", f"the backend `{name}` cannot be loaded: {error}") from error
