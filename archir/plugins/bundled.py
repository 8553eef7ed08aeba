"""Import of all modules of an archir package, so that each registers its extensions without a hand-written list."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages


def import_all(package: str) -> None:
    """Import all modules of a package and of its subpackages, in alphabetical order."""
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)
