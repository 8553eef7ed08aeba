"""The files that a command line names: themselves, and all in folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from archir.base.errors import Diagnostic, fail


def sources(paths: Sequence[str], problems: list[Diagnostic]) -> Iterator[str]:
    """Files as they are named, and all `.arch` files in folders; a folder without any is a problem (A0801)."""
    for path in paths:
        if path != "-" and Path(path).is_dir():
            found = sorted(str(file) for file in Path(path).rglob("*.arch") if file.is_file())
            problems += [] if found else fail("A0801", f"there are no .arch files in {path}").diagnostics
            yield from found
        else:
            yield path
