"""Scoring in this process, one task after the other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Any, Self

from archir.diagnostics.errors import fail
from archir.search.executors.guard import attempt, prepare
from archir.search.executors.protocol import Outcome, Score, Work


class LocalExecutor:
    """No processes, so no time limit: nothing could end a task that does not return without ending this process too."""

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
        """One outcome per task, in order; see `Executor`."""
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
