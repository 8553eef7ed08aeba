"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from heapq import nsmallest
from pathlib import Path

from archir.diagnostics.work import current_budget

_MAX_NAME_LENGTH = 64


_MAX_NAMES = 1_000
"""Maximum number of candidates that a misspelled name is compared with.

If there are more, those closest to the name in length are used. Comparing a name with this many candidates takes a
tenth of a second.
"""


def suggest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the hint "did you mean `x`?" for the candidate closest to `name`, or None if no candidate is close."""
    match = closest_name(name, candidates, 0.6)
    return f"did you mean `{match}`?" if match is not None else None


def suggest_file(path: Path) -> str | None:
    """Return the hint "did you mean `x`?" for a missing file: the file beside it with the closest name.

    Only files whose suffix equals or resembles that of `path` are proposed, since others are of another kind.
    """
    try:
        if path.exists():
            return None
        files = [*path.parent.iterdir()]
        suffixes = difflib.get_close_matches(path.suffix, {file.suffix for file in files}, cutoff=0.7)
        siblings = {file.stem: file.name for suffix in reversed(suffixes) for file in files if file.suffix == suffix}
    except (OSError, ValueError):
        return None
    match = closest_name(path.stem, siblings, 0.6)
    return f"did you mean `{siblings[match]}`?" if match is not None else None


def suggest_inside(folder: Path, *suffixes: str) -> str | None:
    """Return a hint for a folder in place of a file: the network of a run, or the files with these suffixes, if any."""
    try:
        names = sorted(file.name for file in folder.iterdir())
    except OSError:
        return None
    if {"manifest.json", "hashes.json"} & {*names}:  # of a search or a training
        is_exported = "model.onnx" in names
        return f"its network is {folder / 'model.onnx'}" if is_exported else f"`archir export {folder} -o net.onnx`"
    files = [str(folder / name) for name in names if Path(name).suffix in suffixes]
    return f"name a file in it, such as {' or '.join(files[:_MAX_FILES])}" if files else None


_MAX_FILES = 2
"""Maximum number of files that a hint names."""


def closest_name(name: str, candidates: Iterable[str], cutoff: float) -> str | None:
    """Return the candidate most similar to `name`, ignoring case, `-` and `_`, or None.

    None is returned if no similarity (`difflib` ratio) reaches `cutoff`, if `name` is longer than 64 characters, or
    if `work.MAX_HINTS` names have already been looked up within the current work budget.
    """

    budget = current_budget()
    budget.hints_left -= 1
    if len(name) > _MAX_NAME_LENGTH or budget.hints_left < 0:
        return None
    similar = nsmallest(_MAX_NAMES, set(candidates), key=lambda candidate: (abs(len(candidate) - len(name)), candidate))
    same = next((candidate for candidate in similar if normalize_name(candidate) == normalize_name(name)), None)
    by_folded = {candidate.replace("-", "_").casefold(): candidate for candidate in reversed(similar)}
    close = difflib.get_close_matches(name.replace("-", "_").casefold(), by_folded, n=1, cutoff=cutoff)
    return same or next((by_folded[candidate] for candidate in close), None)


def normalize_name(name: str) -> str:
    """Return a name in lower case without `-`, `_` and spaces, so that spellings of one name compare equal."""
    return re.sub(r"[-_ ]", "", name).casefold()
