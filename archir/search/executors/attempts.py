"""Prepare work and score tasks, turning every exception into an outcome with a one-line message."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from traceback import format_exception_only
from typing import Any

from archir.search.executors.protocol import Done, Failed, Outcome, Reason, Score, Work

Packed = tuple[str, bytes]
"""Key of a task, and the pickled task."""

_MAX_LENGTH = 500
"""Maximum length of a message, in characters."""


@dataclass(frozen=True)
class Ready:
    """Answer of a worker after preparing; `problem` says why preparing failed."""

    worker: str
    problem: str | None = None


def worker_name() -> str:
    """Return the name of this process as a worker, `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"


def error_line(error: BaseException) -> str:
    """Return type and text of an exception in one line."""
    text = " ".join("".join(format_exception_only(error)).split())
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."


def prepare(work: Work) -> tuple[Score | None, Ready]:
    """Prepare the work. Returns the function that scores, or None if preparing raised an exception."""
    try:
        return work.prepare(), Ready(worker_name())
    except (Exception, SystemExit) as error:
        return None, Ready(worker_name(), error_line(error))


def attempt(score: Score, key: str, task: Any) -> Outcome:
    """Score a task. Returns `Done`, or `Failed` if it raised an exception or a score is infinite or not a number."""
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
    """Unpickle and score each task of a batch; if one cannot be unpickled, only this task has failed."""
    return [attempt(lambda packed: score(ForkingPickler.loads(packed)), key, packed) for key, packed in batch]


def _out_of_memory(error: BaseException) -> bool:
    """Return whether an exception reports that memory ran out.

    Torch is not imported here: its errors are recognised by class name, and that of its CPU allocator, which has no
    class of its own, by text.
    """
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
