"""Defers SIGINT (Ctrl-C) while worker processes are started or ended, so that none of them is orphaned."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_HAS_MASKS = hasattr(signal, "pthread_sigmask")
"""Whether the platform has signal masks; Windows does not."""


@contextmanager
def deferred_sigint() -> Iterator[None]:
    """Context manager that defers SIGINT until its end; processes started in it block SIGINT until they call
    `unblock_sigint`.

    A signal mask alone is not enough: each thread has its own, and the signal may be delivered to any thread.
    """
    pending: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    is_main_thread = handler is not None and threading.current_thread() is threading.main_thread()
    if is_main_thread:
        signal.signal(signal.SIGINT, lambda number, _: pending.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if _HAS_MASKS else set()
    try:
        yield
    finally:
        if _HAS_MASKS:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if is_main_thread:
            signal.signal(signal.SIGINT, handler)
        if pending:
            signal.raise_signal(signal.SIGINT)


def unblock_sigint() -> None:
    """Unblock SIGINT in this process."""
    if _HAS_MASKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
