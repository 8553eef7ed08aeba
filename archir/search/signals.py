"""Stop a run gracefully on SIGINT or SIGTERM, when its current step is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_active: list[Callable[[], bool]] = []
"""The function yielded by the outermost active context manager of this module; empty if none is active."""


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT or SIGTERM has arrived; a second signal raises KeyboardInterrupt.

    A nested `interruptions` yields the function of the outermost one, so that no signal is lost between the two.
    Signals reach only the main thread; in other threads, the function always returns False.
    """
    if _active:
        yield _active[0]
        return
    arrived = False
    old_handlers = {}

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal arrived
        if arrived:
            raise KeyboardInterrupt
        arrived = True

    if threading.current_thread() is threading.main_thread():
        old_handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        _active.append(lambda: arrived)
    try:
        yield lambda: arrived
    finally:
        _active.clear()
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


@contextmanager
def keep_outer_handlers() -> Iterator[None]:
    """Make nested `interruptions` install no handlers of their own.

    An enclosing `interruptions` goes on noting signals. Without one, as in a worker, the process's handlers stay
    active.
    """
    if _active:
        yield
        return
    _active.append(lambda: False)
    try:
        yield
    finally:
        _active.clear()
