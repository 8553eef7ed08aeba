"""Ctrl-C at a moment when a process is being started, or ended, would lose sight of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MASKS = hasattr(signal, "pthread_sigmask")


@contextmanager
def undisturbed() -> Iterator[None]:
    """SIGINT waits: in this process until all is done, and in those that are started here until they `listen`.

    Threads have masks of their own, and any of them may be given the signal, so that a mask alone is not enough.
    """
    heard: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    ours = before is not None and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if _MASKS else set()
    try:
        yield
    finally:
        if _MASKS:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if ours:
            signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)


def listen() -> None:
    """No longer hold SIGINT back."""
    if _MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
