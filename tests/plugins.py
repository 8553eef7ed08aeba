"""Plugins of tests, which are written into a folder and forgotten afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archir import backends
from archir.plugins import installed, loading
from archir.plugins.registry import REGISTRIES


@contextmanager
def forgotten(folder: Path) -> Iterator[None]:
    """Context in which plugins of a folder can register; afterwards, they and their modules are forgotten."""
    backends.get("torch").complete()  # registers its registries
    before = [(registry, dict(registry), dict(registry.origins)) for registry in REGISTRIES]
    modules, path, loaded, problems = set(sys.modules), list(sys.path), dict(loading._LOADED), installed._problems
    loading._LOADED.clear()
    try:
        yield
    finally:
        for registry, entries, origins in before:
            registry._entries, registry.origins = entries, origins
        for name in {*sys.modules} - modules:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]
        loading._LOADED.clear()
        loading._LOADED.update(loaded)
        installed._problems = problems
        sys.path[:] = path
