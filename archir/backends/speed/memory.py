"""The memory of this process, where the system tells: Linux."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> int | None:
    """Bytes that are in memory now."""
    return _field("VmRSS")


def peak() -> int | None:
    """Bytes that were in memory at the most, since `forget_peak`.

    `getrusage` does not tell: its peak is inherited from the process that started this one.
    """
    return _field("VmHWM")


def forget_peak() -> None:
    """Start over with what is in memory now, where the system allows it."""
    with suppress(OSError):
        _RESET.write_text("5")


def _field(name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
