"""Links from imports to the imported files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from archir.language.syntax import ast
from archir.plugins.libraries import library_file
from archir.tools.lsp.view import View


def import_links(view: View) -> Iterator[tuple[int, int, Path]]:
    """Yield the offsets of each import's path or library name, and the file on disk; imports without a file are left
    out."""
    for item in view.parsed.file.items:
        if isinstance(item, ast.Import) and (path := _imported_file(view, item)) is not None and path.is_file():
            start = view.text.find(item.path, item.span.start, item.span.end)
            if start >= 0:
                yield start, start + len(item.path), path


def _imported_file(view: View, item: ast.Import) -> Path | None:
    if item.relative:
        return None if view.folder is None else view.folder / item.path
    first, *parts = item.path.split(".")
    return (
        Path(str(files("archir.language") / "std" / f"{'/'.join(parts)}.arch"))
        if first == "std"
        else (library_file(item.path))
    )
