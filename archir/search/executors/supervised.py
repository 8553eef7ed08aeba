"""Executor that distributes tasks to workers that may die.

A worker gets one task at a time, or a batch of short tasks if sending each one alone would cost more. If a
worker dies or exceeds the time limit during a batch, the responsible task is unknown, so all tasks of the
batch are retried one by one.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from archir.diagnostics.errors import fail
from archir.search.executors.tasks import Failed, Outcome, Packed, Ready, Reason, Work, error_line
from archir.search.signals import deferred_sigint

BATCH_SECONDS = 0.25
"""Target duration of a batch in seconds: short tasks are batched up to this expected total."""


class DiedError(Exception):
    """Raised if a worker has died; the message says how."""


class Worker(ABC):
    """Worker process: prepares the work when it starts, then scores the batches it receives."""

    @abstractmethod
    def send(self, batch: Sequence[Packed]) -> None:
        """Send a batch of tasks. Does not raise if the worker has died; `receive` does."""

    @abstractmethod
    def receive(self) -> Ready | list[Outcome]:
        """Return the next message: `Ready` first, then the outcomes of each batch. Raises DiedError if the worker has
        died."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the worker; it may already be dead."""


WorkerT = TypeVar("WorkerT", bound=Worker)


class WorkerPool(ABC, Generic[WorkerT]):
    """Starts workers, and waits for their messages."""

    max_batch: int
    """Maximum number of tasks in a batch."""

    @abstractmethod
    def open(self) -> None:
        """Acquire the resources that `size`, `load` and `spawn` need. Raises ArchError."""

    @abstractmethod
    def close(self) -> None:
        """Release what `open` acquired; called when all workers are dead."""

    @abstractmethod
    def size(self) -> int:
        """Return the number of workers to run, at least 1. Raises ArchError."""

    @abstractmethod
    def load(self, work: Work) -> None:
        """Set the work for all workers that are started from now on. Raises ArchError."""

    @abstractmethod
    def pack(self, task: Any) -> bytes:
        """Pickle a task. Exceptions of pickling are passed on."""

    @abstractmethod
    def spawn(self) -> WorkerT:
        """Start a worker without waiting for it to be ready."""

    @abstractmethod
    def ready(self, workers: Sequence[WorkerT], timeout: float | None) -> list[WorkerT]:
        """Return the workers whose `receive` would not block; wait for at least one, at most `timeout` seconds."""


@dataclass
class _Job:
    """Queued task: `deaths` counts the workers that died on it; if `isolated`, it must be sent alone."""

    key: str
    task: Any
    deaths: int = 0
    isolated: bool = False


@dataclass(eq=False)
class _Slot(Generic[WorkerT]):
    """Worker and its state.

    `name` is "" until the worker is ready. `jobs` are the tasks that it has been working on since time `since`.
    `pace` is the mean time in seconds per task in its last batch.
    """

    worker: WorkerT
    name: str = ""
    jobs: list[_Job] = field(default_factory=list)
    since: float = 0.0
    pace: float = BATCH_SECONDS


class Supervised(Generic[WorkerT]):
    """Executor that replaces workers that die or exceed `limit` seconds on a task.

    A task whose worker died is sent again, up to `retries` times.
    """

    def __init__(self, pool: WorkerPool[WorkerT], limit: float | None, retries: int) -> None:
        self.pool, self.limit, self.retries = pool, limit, retries
        self._work: Work | None = None
        self._slots: list[_Slot[WorkerT]] = []
        self._waiting: deque[_Job] = deque()
        self._size = self._early_deaths = 0

    def __enter__(self) -> Self:
        self.pool.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._remove(*self._slots)
        finally:
            self._work = None
            self.pool.close()

    def run(self, work: Work, tasks: Sequence[tuple[str, Any]]) -> Generator[Outcome, None, None]:
        """Yield one outcome per task; see `Executor`."""
        if not tasks:
            return
        if work is not self._work:
            self._remove(*self._slots)
            self._work = None
            self.pool.load(work)
            self._work = work
        self._waiting = deque(_Job(key, task) for key, task in tasks)
        self._size, self._early_deaths = self.pool.size(), 0
        remaining, outcomes = len(tasks), list[Outcome]()
        try:
            while remaining:
                self._spawn(min(self._size, remaining))
                outcomes += self._dispatch()  # before yielding: the caller may take a while with the outcomes
                remaining -= len(outcomes)
                yield from outcomes
                outcomes = [*self._collect(), *self._stop_late()] if remaining else []
        finally:
            self._remove(*(slot for slot in self._slots if slot.jobs))

    def _spawn(self, number: int) -> None:
        while len(self._slots) < number:
            with deferred_sigint():
                self._slots.append(_Slot(self.pool.spawn()))

    def _dispatch(self) -> Iterator[Outcome]:
        """Send a batch to each idle worker; yield a failure for each task that cannot be pickled."""
        for slot in self._slots:
            while self._waiting and slot.name and not slot.jobs:
                batch: list[Packed] = []
                for _ in range(self._batch_size(slot)):
                    if batch and self._waiting[0].isolated:
                        break
                    job = self._waiting.popleft()
                    try:
                        batch.append((job.key, self.pool.pack(job.task)))
                        slot.jobs.append(job)
                    except Exception as error:
                        yield Failed(job.key, "exception", error_line(error), 0.0, slot.name)
                if batch:
                    slot.worker.send(batch)
                    slot.since = time.monotonic()

    def _batch_size(self, slot: _Slot[WorkerT]) -> int:
        """Return the size of the next batch; it shrinks towards the end, so that all workers finish at about the same
        time."""
        if self._waiting[0].isolated:
            return 1
        fair = len(self._waiting) // (2 * len(self._slots))
        return max(1, min(self.pool.max_batch, fair, int(BATCH_SECONDS / max(slot.pace, 1e-6))))

    def _collect(self) -> Iterator[Outcome]:
        """Wait for messages of workers and yield the outcomes in them; yield nothing if a task's time limit expires
        first."""
        if all(slot.name and not slot.jobs for slot in self._slots):
            return
        timeout = None
        if self.limit is not None and any(slot.jobs for slot in self._slots):
            deadline = min(slot.since for slot in self._slots if slot.jobs) + self.limit
            timeout = max(0.0, deadline - time.monotonic())
        ready = self.pool.ready([slot.worker for slot in self._slots], timeout)
        for slot in [slot for slot in self._slots if slot.worker in ready]:
            try:
                message = slot.worker.receive()
            except DiedError as error:
                yield from self._handle_death(slot, str(error))
                continue
            if isinstance(message, Ready):
                if message.problem is not None:
                    raise fail("A2604", f"worker {message.worker} cannot prepare: {message.problem}")
                slot.name, self._early_deaths = message.worker, 0
            else:
                slot.pace = sum(outcome.seconds for outcome in message) / len(message)
                slot.jobs.clear()
                yield from message

    def _handle_death(self, slot: _Slot[WorkerT], how: str) -> Iterator[Outcome]:
        """Remove a dead worker; requeue its tasks, or yield a failure if its task has no retries left."""
        self._remove(slot)
        if not slot.name:
            self._handle_early_death(how)
        elif len(slot.jobs) > 1:
            self._requeue(slot)
        elif slot.jobs:
            slot.jobs[0].deaths += 1
            if slot.jobs[0].deaths <= self.retries:
                self._requeue(slot)
            else:
                times = f" {slot.jobs[0].deaths} times" if slot.jobs[0].deaths > 1 else ""
                yield self._failure(slot, "died", f"its worker died{times}: {how}")

    def _handle_early_death(self, how: str) -> None:
        """Count a worker that died while preparing.

        Such workers are replaced up to `retries` times; after that, the remaining workers continue without
        replacements. Raises ArchError (A2604) if no worker remains.
        """
        self._early_deaths += 1
        if self._early_deaths > self.retries:
            self._size = len(self._slots)
            if not self._size:
                raise fail("A2604", f"workers die before they are prepared: {how}")

    def _stop_late(self) -> Iterator[Outcome]:
        """Stop workers that have exceeded the time limit without sending outcomes.

        Yields a failure if the worker had a single task; the tasks of a larger batch are requeued.
        """
        for slot in list(self._slots):
            seconds = time.monotonic() - slot.since
            is_late = self.limit is not None and slot.jobs and seconds > self.limit
            if is_late and not self.pool.ready([slot.worker], 0.0):
                self._remove(slot)
                if len(slot.jobs) > 1:
                    self._requeue(slot)
                else:
                    yield self._failure(slot, "time", f"took more than {self.limit:g} s")

    def _requeue(self, slot: _Slot[WorkerT]) -> None:
        """Put a worker's tasks back at the front of the queue, each to be sent alone."""
        for job in reversed(slot.jobs):
            job.isolated = True
            self._waiting.appendleft(job)

    def _failure(self, slot: _Slot[WorkerT], reason: Reason, message: str) -> Failed:
        return Failed(slot.jobs[0].key, reason, message, time.monotonic() - slot.since, slot.name)

    def _remove(self, *slots: _Slot[WorkerT]) -> None:
        for slot in slots:
            with deferred_sigint():
                self._slots.remove(slot)
                slot.worker.kill()
