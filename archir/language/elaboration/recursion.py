"""Run deeply recursive code: nested expressions and calls are bounded, but deeper than Python's default limit."""

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
    """Return `work()`, run with a raised recursion limit and without garbage collection."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_FRAMES))
    try:
        with without_gc():
            return _with_large_frame(work)
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def without_gc() -> Iterator[None]:
    """Context manager: turn cyclic garbage collection off.

    For code that keeps all that it allocates: there, collection takes a third of the time and frees nothing.
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
