"""Background thread for long-running work of the language server.

The work is cancelled as soon as another request arrives.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import Context, copy_context
from typing import Any, TypeVar

from archir.diagnostics.work import exhaust_budget

T = TypeVar("T")

_STACK_BYTES = 2**26
"""Stack size of the thread in bytes; large, since expressions may be nested deeply."""
_STOP_INTERVAL = 0.002
"""Seconds between two attempts to stop the work.

Attempts are repeated, as the work may start another work budget after one budget was exhausted.
"""


class InterruptedWorkError(Exception):
    """Raised if background work was cancelled; its partial results must not be used."""


class BackgroundWorker:
    """Runs long-running work in one background thread.

    Neither the background thread nor the event loop's thread uses locks. Therefore, the event loop's thread must not
    call archir while background work is running.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = asyncio.Lock()
        self._running: tuple[Future[Any], Context] | None = None
        self._is_interrupted = False

    async def run(self, prepare: Callable[[], Callable[[], T] | None]) -> T | None:
        """Run work in the thread after all earlier work has finished, and return its result.

        `prepare` is called first and returns the function to run, or None to run nothing; the result is then None.
        Raises InterruptedWorkError if the work was cancelled.
        """
        async with self._lock:
            work = prepare()
            if work is None:
                return None
            self._is_interrupted = False
            context = copy_context()
            future = self._submit(context, work)
            self._running = future, context
            try:
                result = await asyncio.wrap_future(future)
            except Exception:
                if self._is_interrupted:
                    raise InterruptedWorkError from None
                raise
            finally:
                self.interrupt()  # the request may have been cancelled while its work runs
                self._running = None
            if self._is_interrupted:
                raise InterruptedWorkError
            return result

    def interrupt(self) -> bool:
        """Cancel the running work and wait until it has stopped. Returns False if no work was running.

        Work stops the next time it spends from its work budget.
        """
        if self._running is None or self._running[0].done():
            return False
        future, context = self._running
        self._is_interrupted = True
        while not future.done():
            exhaust_budget(context)
            wait([future], _STOP_INTERVAL)
        return True

    def _submit(self, context: Context, work: Callable[[], T]) -> Future[T]:
        """Submit work to the thread, which is created, with a large stack, on first use."""
        if self._pool is None:
            previous_size = threading.stack_size(_STACK_BYTES)
            self._pool = ThreadPoolExecutor(1, "background")
            future = self._pool.submit(context.run, work)
            threading.stack_size(previous_size)
            return future
        return self._pool.submit(context.run, work)
