"""Import of all modules of a package of archir, so that each registers what it defines and nobody maintains a
list."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages


def import_all(package: str) -> None:
    """Import all modules of a package and of its subpackages, in the order of their names."""
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)
