"""Bars of what commands go through."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

from archir.cli.output import console

T = TypeVar("T")


def tracked(items: Iterable[T], total: int, what: str) -> Iterable[T]:
    """The same items, with a bar while they are taken."""
    if not sys.stderr.isatty():
        return items
    from rich.progress import track

    return track(items, what, total, console=console(stderr=True), transient=True)
