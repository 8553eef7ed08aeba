"""Registries: archir's own and plugins' extensions of one kind (operations, strategies, ...), by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, TypeVar

from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest
from archir.plugins import installed

K = TypeVar("K")
V = TypeVar("V")

MAX_LISTED = 20
"""Maximum number of registered names that a hint may list."""
OWN_PACKAGES = ("archir", "archir_torch", "archir_onnx")
"""Top-level packages of archir itself."""
PLUGIN_HINT = 'if a plugin brings it, name the plugin: `--plugin MODULE`, or `plugins = ["MODULE"]` in a recipe'
"""Hint for an unknown name: how to load a plugin that may register it."""


@dataclass(frozen=True)
class Origin:
    """Where an entry was registered: module and qualified name of the class or function that registered it."""

    module: str
    name: str

    @property
    def is_builtin(self) -> bool:
        """Whether the entry belongs to archir itself."""
        return self.module.partition(".")[0] in OWN_PACKAGES

    def __str__(self) -> str:
        return f"`{self.name}` of {self.location}"

    @property
    def location(self) -> str:
        """The origin as messages show it: "archir" for archir's own code, else the module and its file."""
        file = getattr(sys.modules.get(self.module), "__file__", None)
        return "archir" if self.is_builtin else f"{self.module} ({file})" if file else self.module


def _origin(registrant: Any) -> Origin:
    """Return the origin of what a class, a function, a partial function or an instance registers."""
    if isinstance(registrant, partial):
        registrant = registrant.func
    return Origin(registrant.__module__, getattr(registrant, "__qualname__", type(registrant).__qualname__))


def import_all(package: str) -> None:
    """Import all modules of one of archir's packages and of its subpackages, so that each registers its entries."""
    for name in modules_of(package):
        import_module(name)


@cache
def modules_of(package: str) -> tuple[str, ...]:
    """Import a package; return the names of its modules and of those of its subpackages, in alphabetical order."""
    paths = getattr(import_module(package), "__path__", [])
    return tuple(module.name for module in walk_packages(paths, f"{package}."))


class Registry(MutableMapping[K, V]):
    """Entries of one kind by key, each with the class or function that registered it.

    Modules register their entries when they are imported. Looking up an unknown key imports, from the registry's
    packages, the module that is named as the key or as the module of the key (lowering rules of operations in
    `ops/conv.py` are in `conv.py`, too) or, if there is none, all modules; iteration imports all modules. `find` looks
    up a name that a user wrote; if it is unknown, the plugins of installed packages are imported, too. No other method
    imports plugins.
    """

    def __init__(self, kind: str, kinds: str, *packages: str) -> None:
        """Create an empty registry.

        `kind` is the singular noun for an entry in messages, and `kinds` its plural. `packages` are the packages,
        or single modules, of archir that register entries.
        """
        self.kind, self.kinds, self.packages = kind, kinds, packages
        self.origins: dict[K, Origin] = {}
        self._entries: dict[K, V] = {}
        self._subscribers: list[Callable[[K, V], None]] = []
        self._imported = not packages
        REGISTRIES.append(self)

    def add_package(self, package: str) -> None:
        """Add a package, or a single module, that registers entries, such as one of a backend."""
        self.packages += (package,)
        self._imported = False

    def import_all(self) -> None:
        """Import all modules of the registry's packages."""
        if not self._imported:
            self._imported = True  # before the imports, which may iterate over the registry
            for package in self.packages:
                import_all(package)

    def _import(self, key: K) -> None:
        """Import the module that registers a key of archir's own, if the key is unknown."""
        if key not in self._entries and not self._imported:
            names = {key_name(key), getattr(key, "__module__", "").rpartition(".")[2]}
            for package in self.packages:
                for module in sorted({f"{package}.{name}" for name in names}.intersection(modules_of(package))):
                    import_module(module)
            if key not in self._entries:
                self.import_all()

    def register(self, key: K, entry: V, registrant: Any = None) -> None:
        """Register an entry under a key.

        `registrant`, by default the entry itself, is the class or function that registers the entry. A registrant may
        replace its own entry. Raises ArchError (A3103) if another registrant has registered the key.
        """
        origin = _origin(entry if registrant is None else registrant)
        if not origin.is_builtin:
            self.import_all()  # to compare its name with all of archir's own
        registered = self.origins.setdefault(key, origin)
        if registered != origin:
            text = f"two {self.kinds} are named `{key_name(key)}`: {registered}, and {origin}"
            raise fail("A3103", text, None, "give yours another name")
        self._entries[key] = entry
        for callback in self._subscribers:
            callback(key, entry)

    def subscribe(self, callback: Callable[[K, V], None]) -> None:
        """Call `callback(key, entry)` for every entry registered so far, and for each later one when it is
        registered."""
        self._subscribers.append(callback)
        for key, entry in self._entries.items():
            callback(key, entry)

    def find(self, key: K) -> V | None:
        """Return the entry of a key, or None; if the key is unknown, first import the plugins of installed packages."""
        self._import(key)
        if key not in self._entries:
            installed.load()
        return self._entries.get(key)

    def __getitem__(self, key: K) -> V:
        self._import(key)
        return self._entries[key]

    def __setitem__(self, key: K, entry: V) -> None:
        self.origins.setdefault(key, _origin(entry))
        self._entries[key] = entry

    def __delitem__(self, key: K) -> None:
        del self._entries[key]
        self.origins.pop(key, None)

    def __iter__(self) -> Iterator[K]:
        self.import_all()
        return iter(self._entries)

    def __len__(self) -> int:
        self.import_all()
        return len(self._entries)

    def hint(self, name: str) -> str:
        """Return a hint for an unknown name: the closest registered name, or all names if they are few.

        The hint also says how to load a plugin.
        """
        names = sorted(key_name(key) for key in self)
        hint = suggest(name, names)
        if hint is None and len(names) <= MAX_LISTED:
            hint = f"{self.kinds} are {', '.join(names)}"
        return with_plugin_hint(hint)


REGISTRIES: list[Registry[Any, Any]] = []
"""All registries, in the order of their creation."""


def plugin_hint() -> str:
    """Return a hint that says how to load a plugin, and which installed plugins cannot be imported."""
    broken = join_names(sorted(installed.load()), 3)
    return PLUGIN_HINT + (
        f"; installed plugins that cannot be imported: {broken} (see `archir doctor`)" if broken else ""
    )


def with_plugin_hint(hint: str | None) -> str:
    """Append `plugin_hint` to another hint, which may be None."""
    if hint is None:
        return plugin_hint()
    plugins = plugin_hint()
    return f"{hint} {plugins[0].upper()}{plugins[1:]}" if hint.endswith("?") else f"{hint}; {plugins}"


def key_name(key: Any) -> str:
    """Return a registry key as messages show it; an operation class is shown by its name in `.arch` files."""
    return str(getattr(key, "name", key))
