"""Strategies that train, one a file, and those that try candidates."""

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Register all of them: a module of this folder is a strategy, or several."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
