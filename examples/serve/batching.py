"""Requests that arrive at about the same time are computed as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

Sample = TypeVar("Sample")
Answer = TypeVar("Answer")


class FullError(Exception):
    """No further request is taken for now."""


class _Waiting(NamedTuple):
    sample: Any
    answer: asyncio.Future[Any]
    until: float


class Batcher(Generic[Sample, Answer]):
    """Collects samples until there are `size` of them, or the first one has waited for `wait` seconds.

    `run` gets them in a thread of its own; meanwhile the next ones gather, `room` of them at most.
    """

    def __init__(
        self, run: Callable[[Sequence[Sample]], Sequence[Answer]], *, size: int, wait: float, room: int
    ) -> None:
        self._run, self._size, self._wait = run, size, wait
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(room)
        self.batches = self.samples = 0
        """How many were computed."""

    @property
    def waiting(self) -> int:
        """Samples that are in no batch yet."""
        return self._queue.qsize()

    async def answer(self, sample: Sample) -> Answer:
        """What `run` computes of a sample. Raises FullError; whoever gives up is left out of the batch."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        try:
            self._queue.put_nowait(_Waiting(sample, answer, loop.time() + self._wait))
        except asyncio.QueueFull:
            raise FullError from None
        return await answer

    async def serve(self) -> None:
        """Compute batches until this is cancelled."""
        with ThreadPoolExecutor(1, "model") as thread:
            while True:
                batch = [one for one in await self._collect() if not one.answer.done()]
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
            answers = await loop.run_in_executor(thread, self._run, [one.sample for one in batch])
        except Exception as error:
            for one in batch:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return
        self.batches, self.samples = self.batches + 1, self.samples + len(batch)
        for one, answer in zip(batch, answers, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)
