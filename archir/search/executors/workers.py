"""Interfaces of workers that may die, and of the pools that start them: local processes or Ray actors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from archir.search.executors.attempts import Packed, Ready
from archir.search.executors.protocol import Outcome, Work


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
