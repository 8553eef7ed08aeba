"""One attempt to prepare, or to score a task: whatever is raised becomes a line that says so."""

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
"""A key, and a task that is pickled."""

_LONGEST = 500


@dataclass(frozen=True)
class Ready:
    """A worker prepared, or what kept it from that."""

    worker: str
    problem: str | None = None


def here() -> str:
    """The name of this process as a worker."""
    return f"{socket.gethostname()}:{os.getpid()}"


def line(error: BaseException) -> str:
    """Type and text of an exception in one line."""
    text = " ".join("".join(format_exception_only(error)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def prepare(work: Work) -> tuple[Score | None, Ready]:
    """The function that scores; none if preparing raised an exception."""
    try:
        return work.prepare(), Ready(here())
    except (Exception, SystemExit) as error:
        return None, Ready(here(), line(error))


def attempt(score: Score, key: str, task: Any) -> Outcome:
    """Scores of a task as plain numbers, or why there are none."""
    begin = time.perf_counter()
    try:
        scores = {str(name): float(value) for name, value in score(task).items()}
    except (Exception, SystemExit) as error:
        reason: Reason = "memory" if _out_of_memory(error) else "exception"
        return Failed(key, reason, line(error), time.perf_counter() - begin, here())
    seconds = time.perf_counter() - begin
    wrong = [f"`{name}` is {value}" for name, value in scores.items() if not math.isfinite(value)]
    if wrong:
        return Failed(key, "nan", ", ".join(wrong), seconds, here())
    return Done(key, scores, seconds, here())


def attempts(score: Score, portion: Sequence[Packed]) -> list[Outcome]:
    """One attempt at each task of a portion, pickled apart: one that cannot be read has failed, not the others."""
    return [attempt(lambda packed: score(ForkingPickler.loads(packed)), key, packed) for key, packed in portion]


def _out_of_memory(error: BaseException) -> bool:
    """Torch is not loaded: its errors are known by name, and that of its CPU allocator, which has none, by text."""
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
