"""Tasks of executors: work, outcomes, and scoring in a worker.

Every exception becomes an outcome with a one-line message.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from traceback import format_exception_only
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


Packed = tuple[str, bytes]
"""Task key and pickled task."""

_MAX_LENGTH = 500
"""Maximum length of an error message in characters."""


@dataclass(frozen=True)
class Ready:
    """First message of a worker, after preparing; if that failed, `problem` says why."""

    worker: str
    problem: str | None = None


def worker_name() -> str:
    """Return the name `host:pid` of this process as a worker."""
    return f"{socket.gethostname()}:{os.getpid()}"


def error_line(error: BaseException) -> str:
    """Return the type and message of an exception on one line."""
    text = " ".join("".join(format_exception_only(error)).split())
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."


def prepare(work: Work) -> tuple[Score | None, Ready]:
    """Prepare the work in this process.

    Returns the scoring function (None if preparing raised an exception) and the message to send to the parent.
    """
    try:
        return work.prepare(), Ready(worker_name())
    except (Exception, SystemExit) as error:
        return None, Ready(worker_name(), error_line(error))


def attempt(score: Score, key: str, task: Any) -> Outcome:
    """Score a task; return `Done`, or `Failed` if scoring raised an exception or a score is infinite or NaN."""
    start = time.perf_counter()
    try:
        scores = {str(name): float(value) for name, value in score(task).items()}
    except (Exception, SystemExit) as error:
        reason: Reason = "memory" if _out_of_memory(error) else "exception"
        return Failed(key, reason, error_line(error), time.perf_counter() - start, worker_name())
    seconds = time.perf_counter() - start
    problems = [f"`{name}` is {value}" for name, value in scores.items() if not math.isfinite(value)]
    if problems:
        return Failed(key, "nan", ", ".join(problems), seconds, worker_name())
    return Done(key, scores, seconds, worker_name())


def attempt_all(score: Score, batch: Sequence[Packed]) -> list[Outcome]:
    """Unpickle and score each task of a batch; a task that cannot be unpickled fails alone."""
    return [attempt(lambda packed: score(ForkingPickler.loads(packed)), key, packed) for key, packed in batch]


def _out_of_memory(error: BaseException) -> bool:
    """Return True if an exception reports that memory ran out.

    Torch is not imported here. Its CUDA error is recognised by class name; the error of its CPU allocator, which
    has no class of its own, by message.
    """
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
