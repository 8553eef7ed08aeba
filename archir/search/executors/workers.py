"""Interfaces of workers that may die, and of the pools that start them: processes of this machine, or Ray actors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from archir.search.executors.attempts import Packed, Ready
from archir.search.executors.protocol import Outcome, Work


class DiedError(Exception):
    """A worker has died; the text says how."""


class Worker(ABC):
    """Process that prepares as it starts, and then scores the tasks that it is sent."""

    @abstractmethod
    def send(self, batch: Sequence[Packed]) -> None:
        """Send a batch of tasks. If the worker has died, `receive` raises the error."""

    @abstractmethod
    def receive(self) -> Ready | list[Outcome]:
        """Return the next message: first `Ready`, then the outcomes of each batch. Raises DiedError."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the worker, which may be dead already."""


WorkerT = TypeVar("WorkerT", bound=Worker)


class WorkerPool(ABC, Generic[WorkerT]):
    """Pool that starts workers."""

    max_batch: int
    """Maximum number of short tasks in a batch."""

    @abstractmethod
    def open(self) -> None:
        """Acquire what `size`, `load` and `spawn` need. Raises ArchError."""

    @abstractmethod
    def close(self) -> None:
        """Release what `open` acquired; all workers are dead."""

    @abstractmethod
    def size(self) -> int:
        """Return the number of workers that fit, at least 1. Raises ArchError."""

    @abstractmethod
    def load(self, work: Work) -> None:
        """Store the work for the workers that are started after this. Raises ArchError."""

    @abstractmethod
    def pack(self, task: Any) -> bytes:
        """Pickle a task. Raises any exception of pickling."""

    @abstractmethod
    def spawn(self) -> WorkerT:
        """Start a worker, without waiting for it."""

    @abstractmethod
    def ready(self, workers: Sequence[WorkerT], timeout: float | None) -> list[WorkerT]:
        """Return the workers whose `receive` would not block. Waits until there is one, at most `timeout` seconds."""
