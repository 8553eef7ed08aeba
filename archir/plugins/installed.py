"""Plugins of installed packages: those of the entry-point group `archir.plugins`.

They are imported when a name is first asked for that nothing registered, or when somebody lists what there is: a
command that uses none of them does not wait for them.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.metadata import entry_points

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.plugins.loading import imported

GROUP = "archir.plugins"

_problems: dict[str, Diagnostic] | None = None


def load() -> dict[str, Diagnostic]:
    """Import all of them, once. What is wrong with those that cannot be imported, by their names."""
    global _problems
    if _problems is None:
        _problems = {}  # what they look up while they are imported is not looked for in them
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
            name = entry.value.partition(":")[0].strip()
            try:
                imported(name, partial(import_module, name), entry.name)
            except ArchError as error:
                _problems[entry.name] = error.diagnostics[0]
    return _problems
