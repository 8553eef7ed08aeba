"""Strategies, one a file, in a folder for each family of them."""

from importlib import import_module
from pkgutil import walk_packages


def load() -> None:
    """Register all of them: every module below this folder is read."""
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
