"""One process writes a run at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archir.diagnostics.errors import ArchError
from archir.runs import lock
from archir.runs.lock import NAME, Lock, is_locked


def test_a_folder_is_locked_as_long_as_somebody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    assert not is_locked(folder), "there is none"
    held = Lock(folder)
    assert is_locked(folder)
    assert (folder / NAME).read_text() == str(os.getpid())
    monkeypatch.setattr(lock, "_TIMEOUT", 0.05)
    with pytest.raises(ArchError, match=rf"A1807.*is being written by process {os.getpid()}\b"):
        Lock(folder)
    (folder / NAME).write_text("nobody")
    with pytest.raises(ArchError, match=r"A1807.*is being written\n"):
        Lock(folder)
    held.release()
    held.release()  # again, which is nothing
    assert not is_locked(folder)
    Lock(folder).release()


def test_a_child_does_not_hold_the_lock_of_its_parent(tmp_path: Path) -> None:
    """It might outlive it."""
    held = Lock(tmp_path)
    lock._close_in_child()
    assert not is_locked(tmp_path)
    held.release()
    other = Lock(tmp_path)
    assert is_locked(tmp_path)
    other.release()
