"""Library files of plugins: a package's `.arch` files can be imported as `package.file`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from archir.plugins import installed, loading

_SUFFIX = ".arch"


def library_file(name: str) -> Path | None:
    """The file of a library, `package.file` or `package.folder.file`, of a plugin that is loaded or installed."""
    if name not in (known := _files()):
        installed.load()
        known = _files()
    return known.get(name)


def library_names() -> list[str]:
    """The names of all of them."""
    return sorted(_files())


def _files() -> dict[str, Path]:
    return {name: path for plugin in loading.loaded().values() for name, path in _of(plugin)}


def _of(plugin: loading.Plugin) -> Iterator[tuple[str, Path]]:
    for folder in plugin.library:
        for path in sorted(folder.rglob(f"*{_SUFFIX}")):
            parts = path.relative_to(folder).with_suffix("").parts
            if all(part.isidentifier() for part in parts):
                yield ".".join((plugin.name, *parts)), path
