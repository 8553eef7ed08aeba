"""Plugins that a command names: modules of the current folder, of the folders of its files, and of the Python path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archir.diagnostics.errors import ArchError

_PROGRAMS = (".arch", ".toml")
"""What modules may lie beside: the files that name what plugins register."""


def load_plugins(names: Sequence[str], arguments: Sequence[str]) -> None:
    """Import the modules that were named, which may lie beside the files of a command. Raises ArchError (A31xx)."""
    if names:
        from archir.plugins.loading import asked

        folders = [*_folders(arguments)]
        for name in names:
            asked(name, folders)


def fault_of_plugin(error: Exception) -> ArchError | None:
    """What is said of an exception that came through a plugin's own code, None of others."""
    from archir.plugins.loading import blamed

    return blamed(error)


def _folders(arguments: Sequence[str]) -> Iterator[Path]:
    for argument in arguments:
        file, _, net = argument.rpartition(":")
        path = Path(file if net.isidentifier() and file.endswith(_PROGRAMS) else argument)
        if path.suffix in _PROGRAMS:
            yield path.parent
