"""How tasks are given to workers that may die.

A worker scores what it is given in the order in which it came, so the first task that it holds is the one it works on:
that one's clock runs, and that one is blamed if the worker dies. What it holds besides waits again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import TracebackType
from typing import Any, Generic, Self

from archir.errors import fail
from archir.search.executors.attempt import Ready, line
from archir.search.executors.contract import Failed, Outcome, Reason, Work
from archir.search.executors.crew import Crew, DiedError, WorkerT

SHORT = 1.0
"""Who took fewer seconds for a task is given the next one ahead of time; a long one might wait there while others have
nothing to do."""


@dataclass
class _Job:
    key: str
    task: Any
    deaths: int = 0


@dataclass(eq=False)
class _Desk(Generic[WorkerT]):
    """A worker and the jobs it holds; `name` once it is ready; `since` when it began the first of them."""

    worker: WorkerT
    name: str = ""
    jobs: deque[_Job] = field(default_factory=deque)
    since: float = 0.0
    quick: bool = False


class Supervised(Generic[WorkerT]):
    """An executor whose workers are replaced if they die, or take more than `limit` seconds for a task.

    The task of a worker that died is given out again, up to `retries` times.
    """

    def __init__(self, crew: Crew[WorkerT], limit: float | None, retries: int) -> None:
        self.crew, self.limit, self.retries = crew, limit, retries
        self._work: Work | None = None
        self._desks: list[_Desk[WorkerT]] = []
        self._waiting: deque[_Job] = deque()
        self._size = self._early = 0

    def __enter__(self) -> Self:
        self.crew.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._dismiss(*self._desks)
        finally:
            self._work = None
            self.crew.close()

    def run(self, work: Work, tasks: Sequence[tuple[str, Any]]) -> Iterator[Outcome]:
        """One outcome per task; see `Executor`."""
        if not tasks:
            return
        if work is not self._work:
            self._dismiss(*self._desks)
            self._work = None
            self.crew.load(work)
            self._work = work
        self._waiting = deque(_Job(key, task) for key, task in tasks)
        self._size, self._early = self.crew.size(), 0
        left = len(tasks)
        try:
            while left:
                self._hire(min(self._size, left))
                for outcome in chain(self._give_out(), self._heard(), self._late()):
                    left -= 1
                    yield outcome
        finally:
            self._dismiss(*(desk for desk in self._desks if desk.jobs))

    def _hire(self, number: int) -> None:
        while len(self._desks) < number:
            self._desks.append(_Desk(self.crew.hire()))

    def _give_out(self) -> Iterator[Outcome]:
        """Fill the desks, those without work first; tasks that cannot be sent at all have failed."""
        for held in range(1 + self.crew.ahead):
            for desk in self._desks:
                while self._waiting and desk.name and len(desk.jobs) == held and (desk.quick or not held):
                    job = self._waiting.popleft()
                    try:
                        desk.worker.send(job.key, job.task)
                    except Exception as error:
                        yield Failed(job.key, "exception", line(error), 0.0, desk.name)
                        continue
                    if not desk.jobs:
                        desk.since = time.monotonic()
                    desk.jobs.append(job)

    def _heard(self) -> Iterator[Outcome]:
        """What workers say, as soon as one says something; nothing once the first of the time limits is over."""
        if all(desk.name and not desk.jobs for desk in self._desks):
            return
        timeout = None
        if self.limit is not None and any(desk.jobs for desk in self._desks):
            ends = min(desk.since for desk in self._desks if desk.jobs) + self.limit
            timeout = max(0.0, ends - time.monotonic())
        speaking = self.crew.speaking([desk.worker for desk in self._desks], timeout)
        for desk in [desk for desk in self._desks if desk.worker in speaking]:
            try:
                said = desk.worker.receive()
            except DiedError as error:
                yield from self._died(desk, str(error))
                continue
            if isinstance(said, Ready):
                if said.problem is not None:
                    raise fail("A2604", f"worker {said.worker} cannot prepare: {said.problem}")
                desk.name, self._early = said.worker, 0
            else:
                desk.jobs.popleft()
                desk.since, desk.quick = time.monotonic(), said.seconds < SHORT
                yield said

    def _died(self, desk: _Desk[WorkerT], how: str) -> Iterator[Outcome]:
        self._dismiss(desk)
        if not desk.name:
            self._died_early(how)
        elif desk.jobs:
            job = desk.jobs[0]
            job.deaths += 1
            if job.deaths <= self.retries:
                self._waiting.extendleft(reversed(desk.jobs))
            else:
                times = f" {job.deaths} times" if job.deaths > 1 else ""
                yield self._give_up(desk, "died", f"its worker died{times}: {how}")

    def _died_early(self, how: str) -> None:
        """Workers that die before they are prepared are hired again, but not for ever: others may still do the work."""
        self._early += 1
        if self._early > self.retries:
            self._size = len([desk for desk in self._desks if desk.name])
            if not self._size:
                raise fail("A2604", f"workers die before they are prepared: {how}")

    def _late(self) -> Iterator[Outcome]:
        """Tasks that exceed the limit, and whose workers have nothing to say even now."""
        for desk in list(self._desks):
            seconds = time.monotonic() - desk.since
            over = self.limit is not None and desk.jobs and seconds > self.limit
            if over and not self.crew.speaking([desk.worker], 0.0):
                self._dismiss(desk)
                yield self._give_up(desk, "time", f"took more than {self.limit:g} s")

    def _give_up(self, desk: _Desk[WorkerT], reason: Reason, message: str) -> Failed:
        first, *others = desk.jobs
        self._waiting.extendleft(reversed(others))
        return Failed(first.key, reason, message, time.monotonic() - desk.since, desk.name)

    def _dismiss(self, *desks: _Desk[WorkerT]) -> None:
        for desk in desks:
            self._desks.remove(desk)
            desk.worker.kill()
