"""Processes whose environment has a mark `NAME=VALUE` (Linux)."""

from __future__ import annotations

import time
from pathlib import Path


def left(mark: str) -> list[str]:
    """Return the command lines of marked processes that still run."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                lines.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return lines


def gone(mark: str, but: str | None = None, seconds: float = 15) -> bool:
    """Wait until no marked process is left, except those with `but` in their command lines; False after `seconds`."""
    until = time.monotonic() + seconds
    while others := [command for command in left(mark) if but is None or but not in command]:
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return not others
