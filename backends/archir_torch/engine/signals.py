"""Signals that ask a run to stop when its step is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """A function that tells whether SIGINT or SIGTERM came meanwhile. A second one acts at once, as without this.

    Signals reach the main thread alone; in others, nothing comes.
    """
    came = False
    before = {}

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
