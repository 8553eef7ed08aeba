"""Interfaces of executors: work, outcome of a task, and executor."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self

Reason = Literal["exception", "time", "died", "memory", "nan"]
"""Why a task failed."""
Score = Callable[[Any], Mapping[str, float]]
"""Function that maps a task to named scores."""


class Work(Protocol):
    """Work of an executor: prepares a worker and returns the function that scores tasks.

    If workers are separate processes, the work and its tasks must be picklable. Scores must depend only on the work and
    the task. Worker processes set `OMP_NUM_THREADS` to their number of cores; `prepare` must set everything else that
    affects rounding. Arrays in the work may be read-only.
    """

    def prepare(self) -> Score:
        """Return the scoring function. Called once in each worker, not subject to time limits."""
        ...


@dataclass(frozen=True)
class Done:
    """Successful outcome of a task: finite scores, time of scoring in seconds, and worker name `host:pid`."""

    key: str
    scores: Mapping[str, float]
    seconds: float
    worker: str


@dataclass(frozen=True)
class Failed:
    """Failed outcome of a task; `message` gives the cause on one line."""

    key: str
    reason: Reason
    message: str
    seconds: float
    worker: str


Outcome = Done | Failed
"""Outcome of a task."""


class Executor(Protocol):
    """Context manager that scores tasks.

    Workers live until the executor is closed. They call `Work.prepare` again only if `run` gets a different `Work`.
    """

    def run(self, work: Work, tasks: Sequence[tuple[str, Any]]) -> Generator[Outcome, None, None]:
        """Yield one outcome per task, in order of completion. A task is a pair: a key, and the argument of the scoring
        function.

        If the generator is closed early or interrupted, only the tasks in progress are lost. Raises ArchError (A2604)
        if the workers cannot start or prepare.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
