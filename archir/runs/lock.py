"""Lock on the folder of a run, which ensures that only one process writes to it.

The operating system releases the lock when the process that holds it ends for any reason.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from archir.diagnostics.errors import fail
from archir.utils.files import report_write_errors

NAME = ".lock"
"""Name of the lock file; it contains the process id of the holder."""
_TIMEOUT = 1.0
"""Time in seconds to wait for the lock; readers that test it hold it for an instant."""

_held: set[int] = set()
"""File descriptors of the locks that this process holds."""


class Lock:
    """Lock on a folder, held until `release` is called. Raises ArchError (A1807) if another process holds it."""

    def __init__(self, folder: Path) -> None:
        with report_write_errors(folder / NAME):
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + _TIMEOUT
        while not _try_lock(self._handle):
            if time.monotonic() > deadline:
                holder = os.pread(self._handle, 20, 0).decode("ascii", "replace").strip() if os.name == "posix" else ""
                os.close(self._handle)
                holder_text = f" by process {holder}" if holder.isdigit() else ""
                hint = "wait until it ends, or stop it; it can be resumed then"
                raise fail("A1807", f"{folder} is being written{holder_text}", None, hint)
            time.sleep(0.02)
        _held.add(self._handle)
        os.ftruncate(self._handle, 0)
        os.write(self._handle, str(os.getpid()).encode())

    def release(self) -> None:
        """Release the lock."""
        if self._handle in _held:
            _held.discard(self._handle)
            os.close(self._handle)


def is_locked(folder: Path) -> bool:
    """Return True if a process holds the lock on a folder."""
    try:
        handle = os.open(folder / NAME, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try_lock(handle)
    finally:
        os.close(handle)


def _close_in_child() -> None:
    """Close the inherited lock files in a forked child, which could otherwise hold the locks beyond the parent's
    end."""
    for handle in _held:
        os.close(handle)
    _held.clear()


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            os.lseek(handle, 1 << 20, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        except OSError:
            return False
        return True

else:
    import fcntl

    os.register_at_fork(after_in_child=_close_in_child)

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
