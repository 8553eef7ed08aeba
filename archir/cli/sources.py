"""The files that a command line names: themselves, and all in folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from archir.diagnostics.errors import Diagnostic, fail


def sources(paths: Sequence[str], problems: list[Diagnostic]) -> Iterator[str]:
    """Files as they are named, and all `.arch` files in folders; a folder without any is a problem (A0801).

    Folders that are hidden, such as `.venv` and `.git`, are left out, unless they are named themselves.
    """
    for path in paths:
        if path != "-" and Path(path).is_dir():
            found = sorted(_below(path))
            problems += [] if found else fail("A0801", f"there are no .arch files in {path}").diagnostics
            yield from found
        else:
            yield path


def _below(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(place, name) for name in names if name.endswith(".arch")]
        yield from (str(path) for path in paths if path.is_file())
