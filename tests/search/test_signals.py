"""Signals reach the outermost run of the main thread, whatever other threads do."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

from archir.search.signals import interruptions, keep_outer_handlers


def in_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_nested_context_sees_signal_and_second_signal_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptions() as outer:
        with interruptions() as inner, keep_outer_handlers():
            assert not inner()
            signal.raise_signal(signal.SIGINT)
        assert inner()
        assert outer()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_neither_receive_signals_nor_lose_them_for_main_thread() -> None:
    seen: list[bool] = []

    def stands_by() -> None:
        with interruptions() as interrupted:
            entered.set()
            leave.wait()
            seen.append(interrupted())

    def keeps() -> None:
        with keep_outer_handlers(), interruptions() as interrupted:
            seen.append(interrupted())

    entered, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=stands_by)
    thread.start()
    entered.wait()
    with interruptions() as outer:
        leave.set()
        thread.join()
        in_thread(keeps)
        with interruptions() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner()
        assert outer()
        in_thread(keeps)
    assert seen == [False, False, False]


def test_thread_without_handlers_leaves_those_of_main_thread_to_it() -> None:
    """What a thread keeps for itself does not stop the main thread from installing handlers."""
    entered, leave = threading.Event(), threading.Event()

    def keeps() -> None:
        with keep_outer_handlers():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=keeps)
    thread.start()
    entered.wait()
    try:
        with interruptions() as interrupted:
            signal.raise_signal(signal.SIGINT)
            assert interrupted()
    finally:
        leave.set()
        thread.join()
