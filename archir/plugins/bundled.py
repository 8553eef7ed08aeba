"""Packages whose modules register what they define: they read their own folder, so that nobody keeps a list."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages


def import_all(package: str) -> None:
    """Import all modules below a package, folders in folders too, in the order of their names."""
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)
