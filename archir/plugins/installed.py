"""Plugins of installed packages: the modules of the entry-point group `archir.plugins`.

The modules are imported the first time that all registered names are listed, or that a name written by a user is not
registered (`Registry.find`). Other commands do not spend time on the import.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.metadata import entry_points

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.plugins.loading import import_plugin

GROUP = "archir.plugins"
"""Entry-point group whose modules are imported as plugins."""

_problems: dict[str, Diagnostic] | None = None
"""Diagnostics of the plugins that could not be imported, by entry-point name; None until `load` has run."""


def load() -> dict[str, Diagnostic]:
    """Import all installed plugins, at most once. Return a diagnostic for each failed import, by entry-point name."""
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
