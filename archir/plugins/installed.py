"""Plugins of installed packages: the modules of the entry-point group `archir.plugins`.

They are imported when a user's name is first looked up and is unknown (`Registry.find`), or when everything is listed:
commands that need neither do not pay for the import.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.metadata import entry_points

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.plugins.loading import import_plugin

GROUP = "archir.plugins"
"""Entry-point group whose modules are imported."""

_problems: dict[str, Diagnostic] | None = None
"""Why plugins could not be imported, by entry-point name; None until `load` has run."""


def load() -> dict[str, Diagnostic]:
    """Import all installed plugins, once. Return a diagnostic for each that cannot be imported, by entry-point
    name."""
    global _problems
    if _problems is None:
        _problems = {}  # set first: a lookup during these imports must not import the plugins again
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
            name = entry.value.partition(":")[0].strip()
            try:
                import_plugin(name, partial(import_module, name), entry.name)
            except ArchError as error:
                _problems[entry.name] = error.diagnostics[0]
    return _problems
