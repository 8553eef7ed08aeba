"""Processes that carry a mark, `NAME=VALUE`, in the environment that they were started with: on Linux."""

from __future__ import annotations

import time
from pathlib import Path


def left(mark: str) -> list[str]:
    """Command lines of those that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def gone(mark: str, but: str | None = None, seconds: float = 15) -> bool:
    """Whether, before so many seconds are over, none is left; `but` for those with this in their command lines."""
    until = time.monotonic() + seconds
    while others := [command for command in left(mark) if but is None or but not in command]:
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return not others
