"""Runs deeply recursive code, which needs more than Python's default recursion limit.

The nesting of programs, and thus the recursion, is limited.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

MAX_FRAMES = 40_000
"""Python's recursion limit during elaboration."""


def with_deep_recursion(work: Callable[[], T]) -> T:
    """Call `work` with a raised recursion limit and garbage collection turned off; return its result."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_FRAMES))
    try:
        with without_gc():
            return _with_large_frame(work)
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def without_gc() -> Iterator[None]:
    """Context manager that turns off cyclic garbage collection.

    This is for code that keeps everything it allocates: garbage collection would take a third of the time and free
    nothing.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _with_large_frame(work: Callable[[], T]) -> T:
    return work()


# CPython allocates frames in chunks of 16 KiB. A loop whose calls cross the end of a chunk maps and unmaps memory at
# every call, which took half of the time. A frame that declares more than one megabyte gets a chunk of two megabytes.
_with_large_frame.__code__ = _with_large_frame.__code__.replace(co_stacksize=2**17 + 2**14)
