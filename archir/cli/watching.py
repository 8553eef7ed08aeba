"""Doing something again whenever a file changes that it read."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

import click

from archir.cli.output import say
from archir.diagnostics.work import current
from archir.utils.files import telling

INTERVAL = 0.3
"""Seconds between two looks at the files, at least."""
SETTLED = 0.1
"""Seconds without a further change, after which one is done: somebody may write several files, or one in steps."""
SHARE = 20
"""Of the time between looks, a look takes at most one part in so many."""
Mark = tuple[int, ...] | None
"""What tells whether a file is another one by now; None where there is none."""


def watched(check: Callable[[], object], listed: Callable[[], Iterable[Path]]) -> None:
    """Call `check` now, and again when a file changes that it read, or wanted to read; until Ctrl-C.

    `listed` are the files to begin with, asked for anew each time: what comes to a folder is a change, too. Files are
    looked at by their times and sizes, which works everywhere, on network drives and in containers as well.
    """
    gc.enable()  # this is no short command
    try:
        _go_on(check, listed)
    except KeyboardInterrupt:
        say("")


def _go_on(check: Callable[[], object], listed: Callable[[], Iterable[Path]]) -> None:
    changed: list[Path] = []
    while True:
        marks = _marks(listed())
        click.clear()
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            say(f"\n{datetime.now():%H:%M:%S} {_short(changed[0])}{more} changed")
        current().known.clear()  # of texts that are no more
        with telling(partial(_note, marks)):
            check()
        there = sum(mark is not None for mark in marks.values())
        say(f"watching {there} file{'' if there == 1 else 's'}; Ctrl-C ends")
        changed = _next(marks, listed)


def _next(marks: dict[Path, Mark], listed: Callable[[], Iterable[Path]]) -> list[Path]:
    """Wait for a change and until it is done, and say which files it is about."""
    pause, before = INTERVAL, dict[Path, Mark]()
    while True:
        sleep(pause)
        begin = perf_counter()
        new = _marks(marks) | _marks(listed())
        found = {path: mark for path, mark in new.items() if path not in marks or marks[path] != mark}
        if found and found == before:
            return list(found)
        pause = max(SETTLED if found else INTERVAL, SHARE * (perf_counter() - begin))
        before = found


def _marks(paths: Iterable[Path]) -> dict[Path, Mark]:
    found: dict[Path, Mark] = {}
    for path in paths:
        _note(found, path)
    return found


def _note(marks: dict[Path, Mark], path: Path) -> None:
    """Write down what a file is, unless that is known: what it was before it was read first."""
    path = Path(os.path.abspath(path))
    if path not in marks:
        try:
            facts = path.stat()
        except (OSError, ValueError):
            marks[path] = None
        else:
            marks[path] = facts.st_mtime_ns, facts.st_size, facts.st_ino


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
