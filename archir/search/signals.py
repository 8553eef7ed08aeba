"""Stops a run gracefully on SIGINT or SIGTERM, once its current step is done; defers SIGINT (Ctrl-C) while worker
processes are started or ended, so that none of them is orphaned."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_active: list[Callable[[], bool]] = []
"""The function that the outermost active context manager of the main thread yields; empty if none is active."""


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Context manager that yields a function returning whether SIGINT or SIGTERM has arrived.

    A second signal raises KeyboardInterrupt. Nested uses yield the function of the outermost one, so that no
    signal is lost between them. Only the main thread receives signals; in other threads, the function always
    returns False.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    if _active:
        yield _active[0]
        return
    arrived = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal arrived
        if arrived:
            raise KeyboardInterrupt
        arrived = True

    old_handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    _active.append(lambda: arrived)
    try:
        yield _active[0]
    finally:
        _active.clear()
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


@contextmanager
def keep_outer_handlers() -> Iterator[None]:
    """Context manager in which `interruptions` installs no signal handlers.

    An enclosing `interruptions` keeps receiving signals. If there is none, as in a worker, the handlers of the
    process stay in place.
    """
    if _active or threading.current_thread() is not threading.main_thread():
        yield
        return
    _active.append(lambda: False)
    try:
        yield
    finally:
        _active.clear()


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
