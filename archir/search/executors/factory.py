"""Creates executors from their names on the command line or in a recipe."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Any, Self

from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.hints import suggest
from archir.search.executors.tasks import Executor, Outcome, Score, Work, attempt, prepare


class LocalExecutor:
    """Executor that scores in this process.

    It supports no time limit, since a task cannot be stopped without ending the whole process.
    """

    def __init__(self) -> None:
        self._work: Work | None = None
        self._score: Score | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._work = self._score = None

    def run(self, work: Work, tasks: Sequence[tuple[str, Any]]) -> Generator[Outcome, None, None]:
        """Yield one outcome per task, in task order; see `Executor`."""
        if not tasks:
            return
        if work is not self._work:
            self._score, ready = prepare(work)
            if ready.problem is not None:
                raise fail("A2604", f"worker {ready.worker} cannot prepare: {ready.problem}")
            self._work = work
        assert self._score is not None
        for key, task in tasks:
            yield attempt(self._score, key, task)


KINDS = ("local", "processes", "ray")
"""Kinds of executors: the part of an executor's name before the colon."""


def executor(
    text: str, *, limit: float | None = None, retries: int = 2, cores: float = 1.0, gpus: float = 0.0
) -> Executor:
    """Create the executor with the given name.

    | name | where it scores |
    |---|---|
    | `local` | in this process |
    | `processes`, `processes:4` | in that many processes; by default, as many as this process's cores allow |
    | `ray` | on a Ray cluster that it starts on this machine |
    | `ray:HOST:PORT` | on a running cluster that includes this machine |
    | `ray://HOST:PORT` | on a running cluster that does not include this machine |

    `limit` is the time limit per task in seconds, `retries` how often a task is retried after its worker died,
    `cores` and, on Ray only, `gpus` are the resources of each worker. Raises ArchError: A2601 (no such executor,
    or an invalid argument), A2602 (a package is missing), A2603 (the executor cannot enforce a limit).
    """
    _check("limit", limit is None or limit > 0, "more than 0 seconds")
    _check("retries", retries >= 0, "0 or more")
    _check("cores", cores >= 0, "0 or more")
    _check("gpus", gpus >= 0, "0 or more")
    kind, colon, argument = text.partition(":")
    if kind == "local" and not colon:
        if limit is not None:
            message = "`local` cannot enforce a time limit: it would have to end this process"
            raise fail("A2603", message, None, "use `processes:1`")
        return LocalExecutor()
    if kind == "processes":
        if colon and not re.fullmatch(r"[1-9]\d*", argument):
            raise _unknown(text, "write `processes:4` for four processes")
        from archir.search.executors.processes import ProcessPool
        from archir.search.executors.supervised import Supervised

        threads = max(1, int(cores))
        count = int(argument) if colon else max(1, _available_cores() // threads)
        return Supervised(ProcessPool(count, threads), limit, retries)
    if kind == "ray":
        if colon and not re.fullmatch(r"(//)?[^\s/]+:\d+", argument):
            raise _unknown(text, "an address is `ray:HOST:PORT` or `ray://HOST:PORT`")
        from archir.search.executors.cluster import ActorPool
        from archir.search.executors.supervised import Supervised

        address = text if argument.startswith("//") else argument or None
        return Supervised(ActorPool(address, cores, gpus), limit, retries)
    names = ", ".join(f"`{name}`" for name in KINDS)
    raise _unknown(text, suggest(kind, KINDS) or f"the executors are {names}")


def device_of(text: str, own: str, gpus: float = 0.0) -> str:
    """Return the device on which an executor's workers compute; `own` is the device of this process.

    On Ray, workers see only the GPUs assigned to them, whatever this machine has.
    """
    if text.partition(":")[0] != "ray":
        return own
    return "cuda" if gpus else "cpu"


def _unknown(text: str, hint: str) -> ArchError:
    return fail("A2601", f"there is no executor `{text}`", None, hint)


def _check(name: str, valid: bool, wanted: str) -> None:
    """Raise ArchError (A2601) unless `valid`; `wanted` describes the valid values of argument `name`."""
    if not valid:
        raise fail("A2601", f"`{name}` of an executor must be {wanted}")


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
