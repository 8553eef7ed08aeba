"""What is scored, what comes of it, and who does it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self

Reason = Literal["exception", "time", "died", "memory", "nan"]
Score = Callable[[Any], Mapping[str, float]]
"""From a task to scores by name."""


class Work(Protocol):
    """What workers do. Where they are processes of their own, it must be picklable, and so must tasks be.

    Scores must follow from the work and the task alone. Workers of a process set `OMP_NUM_THREADS` to the cores that
    one has; what else decides how numbers are rounded is up to `prepare`. Arrays of the work may be read-only.
    """

    def prepare(self) -> Score:
        """The function that scores; called once in each worker, outside of all time limits."""
        ...


@dataclass(frozen=True)
class Done:
    """Scores of a task, all of them finite, after so many seconds in a worker, `host:process`."""

    key: str
    scores: Mapping[str, float]
    seconds: float
    worker: str


@dataclass(frozen=True)
class Failed:
    """A task without scores, and in one line why."""

    key: str
    reason: Reason
    message: str
    seconds: float
    worker: str


Outcome = Done | Failed


class Executor(Protocol):
    """A context manager: workers live while it is open, and stay prepared as long as the work is the same object."""

    def run(self, work: Work, tasks: Sequence[tuple[str, Any]]) -> Generator[Outcome, None, None]:
        """One outcome per task (a key, and what is scored), in the order in which they come.

        Whoever stops early (`close`), or is interrupted, loses what is under way, and nothing else.
        Raises ArchError (A2604) if workers cannot start or prepare.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
