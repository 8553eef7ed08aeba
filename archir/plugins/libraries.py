"""`.arch` library files that plugins contain; programs import them as `package.file`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from archir.plugins import installed, loading

_SUFFIX = ".arch"


def library_file(name: str) -> Path | None:
    """Return the path of a library that a loaded or installed plugin contains; None if there is none.

    `name` is `package.file` or `package.folder.file`.
    """
    if name not in (files := _library_files()):
        installed.load()
        files = _library_files()
    return files.get(name)


def library_names() -> list[str]:
    """Return the names of all libraries that loaded plugins contain, sorted."""
    return sorted(_library_files())


def _library_files() -> dict[str, Path]:
    return {name: path for plugin in loading.loaded().values() for name, path in _plugin_files(plugin)}


def _plugin_files(plugin: loading.Plugin) -> Iterator[tuple[str, Path]]:
    for folder in plugin.library_folders:
        for path in sorted(folder.rglob(f"*{_SUFFIX}")):
            parts = path.relative_to(folder).with_suffix("").parts
            if all(part.isidentifier() for part in parts):
                yield ".".join((plugin.name, *parts)), path
