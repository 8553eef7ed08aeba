"""Registry of search strategies; the modules in `archir.search.strategies` register their strategies in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from archir.diagnostics.errors import fail
from archir.plugins.registry import Registry
from archir.search.ask_tell import Search
from archir.spaces.space import Space
from archir.utils.settings import Settings, parse_settings

Factory = Callable[[Space, Any, int], Search]
"""Function that creates a strategy from (space, options, seed)."""


@dataclass(frozen=True)
class StrategyKind:
    """Registered strategy: its options class, and the function that creates it."""

    options: type[Settings]
    make: Factory


STRATEGIES: Registry[str, StrategyKind] = Registry(
    "strategy that tries", "strategies that try", "archir.search.strategies"
)
"""All registered strategies by name."""


def strategy(name: str, options: type[Settings]) -> Callable[[Any], Any]:
    """Return a decorator that registers a class or function as a strategy."""

    def register(make: Any) -> Any:
        STRATEGIES.register(name, StrategyKind(options, make), make)
        return make

    return register


def strategy_kind(name: str) -> StrategyKind:
    """Return the strategy with a name. Raises ArchError (A2504) if there is none."""
    kind = STRATEGIES.find(name)
    if kind is None:
        raise fail("A2504", f"no strategy that tries architectures is named `{name}`", None, STRATEGIES.hint(name))
    return kind


def create(name: str, space: Space, options: Mapping[str, Any] | None = None, seed: int = 0) -> Search:
    """Create a strategy by name. Raises ArchError: A2504 (no such strategy), A1109 (invalid options)."""
    kind = strategy_kind(name)
    return kind.make(space, parse_settings(kind.options, options or {}, f"strategy `{name}`: "), seed)
