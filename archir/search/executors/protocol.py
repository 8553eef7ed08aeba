"""Interfaces of executors: the work, the outcome of a task, and the executor itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self

Reason = Literal["exception", "time", "died", "memory", "nan"]
"""Why a task failed."""
Score = Callable[[Any], Mapping[str, float]]
"""Function that maps a task to scores by name."""


class Work(Protocol):
    """Work of the executor's workers. If workers are separate processes, the work and its tasks must be picklable.

    Scores must depend on nothing but the work and the task. Worker processes set `OMP_NUM_THREADS` to their number of
    cores; `prepare` is responsible for everything else that affects rounding. Arrays of the work may be read-only.
    """

    def prepare(self) -> Score:
        """Return the function that scores. Called once in each worker, outside of all time limits."""
        ...


@dataclass(frozen=True)
class Done:
    """Finite scores of a task, the seconds that scoring took, and the worker, `host:pid`."""

    key: str
    scores: Mapping[str, float]
    seconds: float
    worker: str


@dataclass(frozen=True)
class Failed:
    """Task without scores; `message` says why in one line."""

    key: str
    reason: Reason
    message: str
    seconds: float
    worker: str


Outcome = Done | Failed
"""Result of a task."""


class Executor(Protocol):
    """Context manager that scores tasks. Workers live until it is closed, and are prepared again only for another work
    object."""

    def run(self, work: Work, tasks: Sequence[tuple[str, Any]]) -> Generator[Outcome, None, None]:
        """Yield one outcome per task, a pair of a key and an argument of the scoring function, in the order of
        completion.

        If the generator is closed early or interrupted, only the tasks in progress are lost. Raises ArchError (A2604)
        if workers cannot start or prepare.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
