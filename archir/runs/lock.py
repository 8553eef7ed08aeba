"""One writer at a time: a lock that the system takes back when its holder dies, however it dies."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from archir.diagnostics.errors import fail
from archir.utils.files import writing

NAME = ".lock"
_PATIENCE = 1.0
"""Seconds; whoever looks whether a run is locked holds its lock for an instant."""

_held: set[int] = set()


class Lock:
    """The lock of a folder, held until it is released. Raises ArchError (A1807) if somebody else holds it."""

    def __init__(self, folder: Path) -> None:
        with writing(folder / NAME):
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        until = time.monotonic() + _PATIENCE
        while not _try(self._handle):
            if time.monotonic() > until:
                holder = os.pread(self._handle, 20, 0).decode("ascii", "replace").strip() if os.name == "posix" else ""
                os.close(self._handle)
                by = f" by process {holder}" if holder.isdigit() else ""
                hint = "wait until it ends, or stop it; it can be resumed then"
                raise fail("A1807", f"{folder} is being written{by}", None, hint)
            time.sleep(0.02)
        _held.add(self._handle)
        os.ftruncate(self._handle, 0)
        os.write(self._handle, str(os.getpid()).encode())

    def release(self) -> None:
        """Let others write."""
        if self._handle in _held:
            _held.discard(self._handle)
            os.close(self._handle)


def locked(folder: Path) -> bool:
    """Whether somebody writes."""
    try:
        handle = os.open(folder / NAME, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try(handle)
    finally:
        os.close(handle)


def _drop() -> None:
    """A forked child does not hold its parent's locks: it might outlive the parent."""
    for handle in _held:
        os.close(handle)
    _held.clear()


if sys.platform == "win32":
    import msvcrt

    def _try(handle: int) -> bool:
        try:
            os.lseek(handle, 1 << 20, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        except OSError:
            return False
        return True

else:
    import fcntl

    os.register_at_fork(after_in_child=_drop)

    def _try(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
