"""Expansion of the paths on a command line into .arch files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from archir.diagnostics.errors import Diagnostic, fail
from archir.language.program_files import program_files


def expand_paths(paths: Sequence[str], problems: list[Diagnostic]) -> Iterator[str]:
    """Yield the given files and all `.arch` files below the given folders.

    A folder without `.arch` files adds a diagnostic (A0801) to `problems`. Hidden folders, such as `.venv` and `.git`,
    are skipped unless they are given themselves.
    """
    for path in paths:
        if path != "-" and Path(path).is_dir():
            inside = sorted(map(str, program_files(path)))
            problems += [] if inside else fail("A0801", f"there are no .arch files in {path}").diagnostics
            yield from inside
        else:
            yield path
