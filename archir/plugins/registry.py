"""What is registered by name: archir's own things of a kind, and those of plugins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from archir.diagnostics.errors import fail, listed, suggest
from archir.plugins import installed

K = TypeVar("K")
V = TypeVar("V")

MOST_LISTED = 20
OURS = ("archir", "archir_torch", "archir_onnx")
DOOR = 'if a plugin brings it, name the plugin: `--plugin MODULE`, or `plugins = ["MODULE"]` in a recipe'


@dataclass(frozen=True)
class Origin:
    """What registered something: a class or a function of a module."""

    module: str
    name: str

    @property
    def ours(self) -> bool:
        """Whether it is archir's own."""
        return self.module.partition(".")[0] in OURS

    def __str__(self) -> str:
        return f"`{self.name}` of {self.home}"

    @property
    def home(self) -> str:
        """The module, and its file."""
        file = getattr(sys.modules.get(self.module), "__file__", None)
        return "archir" if self.ours else f"{self.module} ({file})" if file else self.module


class Registry(MutableMapping[K, V]):
    """Things of a kind, by name, and who registered each. A name that nobody registered is looked for in the plugins of
    installed packages."""

    def __init__(self, kind: str, kinds: str) -> None:
        """`kind` is what messages call one thing, and `kinds` what they call several."""
        self.kind, self.kinds = kind, kinds
        self.origins: dict[K, Origin] = {}
        self._things: dict[K, V] = {}
        self._told: list[Callable[[K, V], None]] = []
        REGISTRIES.append(self)

    def register(self, key: K, thing: V, by: Any = None) -> None:
        """Register a thing that a class or a function is or makes, by default itself; this one may define it again.

        Raises ArchError (A3103) if somebody else registered the name.
        """
        made = thing if by is None else by
        origin = Origin(made.__module__, getattr(made, "__qualname__", type(made).__qualname__))
        known = self.origins.setdefault(key, origin)
        if known != origin:
            text = f"two {self.kinds} are named `{spelled(key)}`: {known}, and {origin}"
            raise fail("A3103", text, None, "give yours another name")
        self._things[key] = thing
        for function in self._told:
            function(key, thing)

    def each(self, function: Callable[[K, V], None]) -> None:
        """Call a function with every key and its thing: those that there are, and those that will be registered."""
        self._told.append(function)
        for key, thing in self._things.items():
            function(key, thing)

    def __getitem__(self, key: K) -> V:
        if key not in self._things and key not in self:
            raise KeyError(key)
        return self._things[key]

    def __contains__(self, key: object) -> bool:
        if key in self._things:
            return True
        installed.load()
        return key in self._things

    def here(self, key: object) -> bool:
        """Whether somebody registered it until now: plugins that are installed are not asked."""
        return key in self._things

    def __setitem__(self, key: K, thing: V) -> None:
        self._things[key] = thing

    def __delitem__(self, key: K) -> None:
        del self._things[key]
        self.origins.pop(key, None)

    def __iter__(self) -> Iterator[K]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def hint(self, name: str) -> str:
        """What may help whoever asked for a name that is not there."""
        known = sorted(spelled(key) for key in self)
        near = suggest(name, known)
        if near is None and len(known) <= MOST_LISTED:
            near = f"{self.kinds} are {', '.join(known)}"
        return with_door(near)


REGISTRIES: list[Registry[Any, Any]] = []
"""All of them, in the order in which they were made."""


def door() -> str:
    """How a name of a plugin comes to be known."""
    broken = listed(sorted(installed.load()), 3)
    return DOOR + (f"; installed plugins that cannot be imported: {broken} (see `archir doctor`)" if broken else "")


def with_door(hint: str | None) -> str:
    """A hint, and how a name of a plugin comes to be known."""
    if hint is None:
        return door()
    also = door()
    return f"{hint} {also[0].upper()}{also[1:]}" if hint.endswith("?") else f"{hint}; {also}"


def spelled(key: Any) -> str:
    """A key as it is written: operations by their names."""
    return str(getattr(key, "name", key))
