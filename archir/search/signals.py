"""Signals that ask a run to stop when its step is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_outer: list[Callable[[], bool]] = []


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """A function that tells whether SIGINT or SIGTERM came meanwhile. A second one acts at once, as without this.

    Inside another `interruptions`, the signals are those that came since that began: none is lost between the two.
    Signals reach the main thread alone; in others, nothing comes.
    """
    if _outer:
        yield _outer[0]
        return
    came = False
    before = {}

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        _outer.append(lambda: came)
    try:
        yield lambda: came
    finally:
        _outer.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def left_to_others() -> Iterator[None]:
    """Inside, signals are noted by who notes them outside. If nobody does, as in a worker, they act as there."""
    if _outer:
        yield
        return
    _outer.append(lambda: False)
    try:
        yield
    finally:
        _outer.clear()
