"""Plugins of tests: written into a folder, and forgotten afterwards."""

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
    """What plugins of a folder register inside is forgotten at the end, and so are their modules."""
    backends.get("torch").complete()  # its registries are among those that are looked at
    before = [(one, dict(one), dict(one.origins)) for one in REGISTRIES]
    modules, path, known, problems = set(sys.modules), list(sys.path), dict(loading._LOADED), installed._problems
    loading._LOADED.clear()
    try:
        yield
    finally:
        for one, things, origins in before:
            one._entries, one.origins = things, origins
        for name in {*sys.modules} - modules:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]
        loading._LOADED.clear()
        loading._LOADED.update(known)
        installed._problems = problems
        sys.path[:] = path
