"""Modules that have moved: their old names go on working, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def moved(names: Mapping[str, str]) -> None:
    """Let modules be imported by the names that they had, too: `{"package.old": "package.room.new"}`.

    What is imported by an old name is what the new one has, and there is a DeprecationWarning that says so.
    """
    sys.meta_path.append(_Moved(names))


class _Moved(MetaPathFinder, Loader):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """A module of an old name; a package, if modules below it had names of their own."""
        if name not in self._names:
            return None
        return ModuleSpec(name, self, is_package=any(one.startswith(f"{name}.") for one in self._names))

    def exec_module(self, module: ModuleType) -> None:
        """Look in the module of the new name for whatever is asked for."""
        new = self._names[module.__name__]
        warnings.warn(f"{module.__name__} has moved: import {new}", DeprecationWarning, stacklevel=2)
        module.__getattr__ = partial(getattr, import_module(new))  # type: ignore[method-assign]
