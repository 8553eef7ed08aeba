"""Long work of a server: beside what it is asked, alone, and given up as soon as it is asked something else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import Context, copy_context
from typing import Any, TypeVar

from archir.diagnostics.work import stop

T = TypeVar("T")

_STACK = 2**26
"""Bytes of a thread's stack: expressions may nest deep."""
_PATIENCE = 0.002
"""Seconds after which work that did not hear is told again: it may have begun a new budget meanwhile."""


class InterruptedWorkError(Exception):
    """Work was given up for something else; what it left half done is not to be used."""


class Aside:
    """One thread for long work. It runs only while whoever started it does nothing else: neither locks anything."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._turn = asyncio.Lock()
        self._running: tuple[Future[Any], Context] | None = None
        self._stopped = False

    async def run(self, prepare: Callable[[], Callable[[], T] | None]) -> T | None:
        """What work returns that is prepared once all that was asked for before is done; None if there is none to do.

        Raises InterruptedWorkError if it was given up.
        """
        async with self._turn:
            work = prepare()
            if work is None:
                return None
            self._stopped = False
            context = copy_context()
            future = self._started(context, work)
            self._running = future, context
            try:
                result = await asyncio.wrap_future(future)
            except Exception:
                if self._stopped:
                    raise InterruptedWorkError from None
                raise
            finally:
                self.interrupt()  # the request may have been cancelled while its work runs
                self._running = None
            if self._stopped:
                raise InterruptedWorkError
            return result

    def interrupt(self) -> bool:
        """Wait until nothing runs; whether something did. It ends at its next unit of work."""
        if self._running is None or self._running[0].done():
            return False
        future, context = self._running
        self._stopped = True
        while not future.done():
            stop(context)
            wait([future], _PATIENCE)
        return True

    def _started(self, context: Context, work: Callable[[], T]) -> Future[T]:
        if self._pool is None:
            before = threading.stack_size(_STACK)
            self._pool = ThreadPoolExecutor(1, "aside")
            future = self._pool.submit(context.run, work)
            threading.stack_size(before)
            return future
        return self._pool.submit(context.run, work)
