"""Batching: requests that arrive at about the same time are computed as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

Sample = TypeVar("Sample")
Answer = TypeVar("Answer")


class FullError(Exception):
    """Raised when the queue is full."""


class _Waiting(NamedTuple):
    """A queued sample, the future of its answer, and the time until which its batch may be delayed."""

    sample: Any
    answer: asyncio.Future[Any]
    until: float


class Batcher(Generic[Sample, Answer]):
    """Collects samples until there are `size` of them, or the first one has waited for `wait` seconds.

    `run` computes batches in a thread of its own, while up to `room` further samples are queued.
    """

    def __init__(
        self, run: Callable[[Sequence[Sample]], Sequence[Answer]], *, size: int, wait: float, capacity: int
    ) -> None:
        self._run, self._size, self._wait = run, size, wait
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(capacity)
        self.batches = self.samples = 0
        """Numbers of computed batches and samples."""

    @property
    def waiting(self) -> int:
        """Number of queued samples, which are in no batch yet."""
        return self._queue.qsize()

    async def answer(self, sample: Sample) -> Answer:
        """Return what `run` computes of a sample. Raises FullError if the queue is full. Cancelled requests leave their
        batch."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        try:
            self._queue.put_nowait(_Waiting(sample, answer, loop.time() + self._wait))
        except asyncio.QueueFull:
            raise FullError from None
        return await answer

    async def serve(self) -> None:
        """Compute batches until cancelled."""
        with ThreadPoolExecutor(1, "model") as thread:
            while True:
                batch = [item for item in await self._collect() if not item.answer.done()]
                if batch:
                    await self._compute(batch, thread)

    async def _collect(self) -> list[_Waiting]:
        batch = [await self._queue.get()]
        while len(batch) < self._size:
            try:
                batch.append(self._queue.get_nowait())
            except asyncio.QueueEmpty:
                try:
                    async with asyncio.timeout_at(batch[0].until):
                        batch.append(await self._queue.get())
                except TimeoutError:
                    break
        return batch

    async def _compute(self, batch: Sequence[_Waiting], thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(thread, self._run, [item.sample for item in batch])
        except Exception as error:
            for item in batch:
                if not item.answer.done():
                    item.answer.set_exception(error)
            return
        self.batches, self.samples = self.batches + 1, self.samples + len(batch)
        for item, answer in zip(batch, answers, strict=True):
            if not item.answer.done():
                item.answer.set_result(answer)
