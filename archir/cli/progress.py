"""Progress bars of commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

from archir.cli.output import console

T = TypeVar("T")


def track_progress(items: Iterable[T], total: int, description: str) -> Iterable[T]:
    """Yield the items, with a progress bar on standard error if it is a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.progress import track

    return track(items, description, total, console=console(stderr=True), transient=True)
