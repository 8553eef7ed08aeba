"""Imports optional packages, which only some data sources need."""

from __future__ import annotations

import importlib
from typing import Any

from archir.diagnostics.errors import fail


def require_package(package: str, extra: str, feature: str) -> Any:
    """Import an optional package.

    `extra` is the extra of archir that installs the package; `feature` is the text that messages use for the feature
    that needs it. Raises ArchError (A1112), with the install command as a hint, if the package is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        hint = f"pip install 'archir[{extra}]'"
        raise fail("A1112", f"{feature} needs the package `{package.split('.')[0]}`: {error}", None, hint) from None
