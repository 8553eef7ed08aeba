"""The `.arch` files of a folder and its subfolders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def program_files(folder: str | Path) -> Iterator[Path]:
    """Yield the `.arch` files of a folder and its subfolders as they are found, those of a folder in order of their
    names and before those of its subfolders.

    Hidden folders, such as `.venv` and `.git`, are skipped unless `folder` itself is one.
    """
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(parent, name) for name in sorted(names) if name.endswith(".arch"))
        yield from (path for path in paths if path.is_file())
