"""File watcher: repeat an action whenever a file that the action read changes."""

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
from archir.diagnostics.work import current_budget
from archir.utils.counts import count_noun
from archir.utils.files import observe_reads

INTERVAL = 0.3
"""Minimum seconds between two scans of the files."""
DEBOUNCE = 0.1
"""Seconds without further changes after which a change counts as complete.

An editor may write several files, or write one file in several steps.
"""
MAX_SCAN_SHARE = 20
"""Minimum pause between two scans, as a multiple of a scan's duration: scans take at most 1/20 of the time."""
Fingerprint = tuple[int, ...] | None
"""Fingerprint of a file, (mtime_ns, size, inode), that reveals changes; None if the file does not exist."""


def watch_files(check: Callable[[], object], list_files: Callable[[], Iterable[Path]]) -> None:
    """Call `check` now, and again whenever a file that it read or tried to read changes, until Ctrl-C.

    `list_files` returns further files to watch; it is called before each scan, so that new files in a folder count as
    changes. Changes are detected by polling modification times and sizes, which works on every system, on network
    drives and in containers.
    """
    gc.enable()  # it is disabled for short commands
    try:
        _watch_loop(check, list_files)
    except KeyboardInterrupt:
        say("")


def _watch_loop(check: Callable[[], object], list_files: Callable[[], Iterable[Path]]) -> None:
    """Run the loop of `watch_files`: scan, check, wait for a change."""
    changed: list[Path] = []
    while True:
        recorded = _fingerprints(list_files())
        click.clear()
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            say(f"\n{datetime.now():%H:%M:%S} {_display_path(changed[0])}{more} changed")
        current_budget().cache.clear()  # drop cached results of texts that no longer exist
        with observe_reads(partial(_record, recorded)):
            check()
        existing = sum(fingerprint is not None for fingerprint in recorded.values())
        say(f"watching {count_noun(existing, 'file')}; Ctrl-C ends")
        changed = _wait_for_change(recorded, list_files)


def _wait_for_change(recorded: dict[Path, Fingerprint], list_files: Callable[[], Iterable[Path]]) -> list[Path]:
    """Poll until files have changed and then stay unchanged for one pause; return the changed files."""
    pause, last_changes = INTERVAL, dict[Path, Fingerprint]()
    while True:
        sleep(pause)
        begin = perf_counter()
        current_state = _fingerprints(recorded) | _fingerprints(list_files())
        changes = {
            path: fingerprint
            for path, fingerprint in current_state.items()
            if path not in recorded or recorded[path] != fingerprint
        }
        if changes and changes == last_changes:
            return list(changes)
        pause = max(DEBOUNCE if changes else INTERVAL, MAX_SCAN_SHARE * (perf_counter() - begin))
        last_changes = changes


def _fingerprints(paths: Iterable[Path]) -> dict[Path, Fingerprint]:
    """Return the fingerprint of each file."""
    fingerprints: dict[Path, Fingerprint] = {}
    for path in paths:
        _record(fingerprints, path)
    return fingerprints


def _record(recorded: dict[Path, Fingerprint], path: Path) -> None:
    """Record the fingerprint of a file unless it has one already: the state before the first read is the reference."""
    path = Path(os.path.abspath(path))
    if path not in recorded:
        try:
            stat = path.stat()
        except (OSError, ValueError):
            recorded[path] = None
        else:
            recorded[path] = stat.st_mtime_ns, stat.st_size, stat.st_ino


def _display_path(path: Path) -> str:
    """Return a path relative to the current folder if it is inside that folder, else unchanged."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
