"""Room for deep recursion: of nested expressions and calls, which are bounded, but above Python's default."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

MOST_FRAMES = 40_000


def deeply(work: Callable[[], T]) -> T:
    """What `work()` returns."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MOST_FRAMES))
    try:
        with keeping():
            return _roomy(work)
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def keeping() -> Iterator[None]:
    """Meanwhile nothing looks for cyclic garbage: all that is made is kept, and looking takes a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _roomy(work: Callable[[], T]) -> T:
    return work()


# CPython keeps frames in chunks of 16 KiB, and where a loop's calls cross the end of one it maps and unmaps memory at
# every call, which took half of the time. A frame that is declared to be larger than a megabyte makes a chunk of two.
_roomy.__code__ = _roomy.__code__.replace(co_stacksize=2**17 + 2**14)
