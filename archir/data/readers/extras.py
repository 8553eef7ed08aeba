"""Packages that only some sources need."""

from __future__ import annotations

import importlib
from typing import Any

from archir.diagnostics.errors import fail


def needed(package: str, extra: str, what: str) -> Any:
    """A package. Raises ArchError (A1112), with the command that installs it, if it is not there."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        hint = f"pip install 'archir[{extra}]'"
        raise fail("A1112", f"{what} needs the package `{package.split('.')[0]}`: {error}", None, hint) from None
