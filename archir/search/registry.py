"""The strategies, by name: each module of this package may register some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from archir.diagnostics.errors import fail
from archir.plugins.bundled import import_all
from archir.plugins.registry import Registry
from archir.search.candidate import MultiTrial
from archir.spaces.space import Space
from archir.utils.settings import Settings, parsed

Make = Callable[[Space, Any, int], MultiTrial]
"""Makes a strategy of a space, options and a seed."""


@dataclass(frozen=True)
class Kind:
    """What the options of a strategy are, and how it is made."""

    options: type[Settings]
    make: Make


_KNOWN: Registry[str, Kind] = Registry("strategy that tries", "strategies that try")


def strategy(name: str, options: type[Settings]) -> Callable[[Any], Any]:
    """Register a class, or a function, as a strategy."""

    def register(make: Any) -> Any:
        _KNOWN.register(name, Kind(options, make), make)
        return make

    return register


def strategies() -> Registry[str, Kind]:
    """All strategies by name."""
    import_all("archir.search.strategies")
    return _KNOWN


def create(name: str, space: Space, options: Mapping[str, Any] | None = None, seed: int = 0) -> MultiTrial:
    """A strategy by its name. Raises ArchError (A2504) for one there is not, and (A1109) for options that cannot be."""
    known = strategies()
    if name not in known:
        raise fail("A2504", f"no strategy that tries architectures is named `{name}`", None, known.hint(name))
    kind = known[name]
    return kind.make(space, parsed(kind.options, options or {}, f"strategy `{name}`: "), seed)
