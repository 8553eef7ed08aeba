"""Workers that may die, as `Supervised` sees them: processes of this machine, or actors on a Ray cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from archir.search.executors.guard import Packed, Ready
from archir.search.executors.protocol import Outcome, Work


class DiedError(Exception):
    """A worker is gone; the text says how."""


class Worker(ABC):
    """A process that prepares as it starts, and then scores what it is sent."""

    @abstractmethod
    def send(self, portion: Sequence[Packed]) -> None:
        """Give it tasks. That it died is found out by `receive`."""

    @abstractmethod
    def receive(self) -> Ready | list[Outcome]:
        """What it says next: first `Ready`, then the outcomes of each portion. Raises DiedError."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once; it may be dead already."""


WorkerT = TypeVar("WorkerT", bound=Worker)


class Crew(ABC, Generic[WorkerT]):
    """Where workers come from."""

    most: int
    """Tasks that are worth being sent together, at most, where they are short."""

    @abstractmethod
    def open(self) -> None:
        """Make ready for `size`, `load` and `hire`. Raises ArchError."""

    @abstractmethod
    def close(self) -> None:
        """Give back what `open` took; all workers are dead."""

    @abstractmethod
    def size(self) -> int:
        """The number of workers there is room for, at least one. Raises ArchError."""

    @abstractmethod
    def load(self, work: Work) -> None:
        """Keep the work for those who are hired from now on. Raises ArchError."""

    @abstractmethod
    def pack(self, task: Any) -> bytes:
        """Pickle a task. Raises whatever keeps it from that."""

    @abstractmethod
    def hire(self) -> WorkerT:
        """Start a worker, without waiting for it."""

    @abstractmethod
    def speaking(self, workers: Sequence[WorkerT], timeout: float | None) -> list[WorkerT]:
        """Those whose `receive` would not wait. Waits until there is one, or for so many seconds."""
