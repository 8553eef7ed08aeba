"""How tasks are given to workers that may die.

A worker holds one task; or several short ones, where sending costs more than waiting for each other. If one of several
is too much for the worker, or for the time limit, nobody is blamed: all of them are given out again, one by one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self

from archir.diagnostics.errors import fail
from archir.search.executors.guard import Packed, Ready, line
from archir.search.executors.interrupts import undisturbed
from archir.search.executors.protocol import Failed, Outcome, Reason, Work
from archir.search.executors.workers import Crew, DiedError, WorkerT

PORTION = 0.25
"""Seconds that tasks which are sent together take together."""


@dataclass
class _Job:
    key: str
    task: Any
    deaths: int = 0
    alone: bool = False


@dataclass(eq=False)
class _Desk(Generic[WorkerT]):
    """A worker and the jobs it holds since then; `name` once it is ready; seconds that a job took on average lately."""

    worker: WorkerT
    name: str = ""
    jobs: list[_Job] = field(default_factory=list)
    since: float = 0.0
    pace: float = PORTION


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

    def run(self, work: Work, tasks: Sequence[tuple[str, Any]]) -> Generator[Outcome, None, None]:
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
        left, outcomes = len(tasks), list[Outcome]()
        try:
            while left:
                self._hire(min(self._size, left))
                outcomes += self._give_out()  # before outcomes are looked at, which may take a while
                left -= len(outcomes)
                yield from outcomes
                outcomes = [*self._heard(), *self._late()] if left else []
        finally:
            self._dismiss(*(desk for desk in self._desks if desk.jobs))

    def _hire(self, number: int) -> None:
        while len(self._desks) < number:
            with undisturbed():
                self._desks.append(_Desk(self.crew.hire()))

    def _give_out(self) -> Iterator[Outcome]:
        """A portion for each worker without one; tasks that cannot be sent at all have failed."""
        for desk in self._desks:
            while self._waiting and desk.name and not desk.jobs:
                portion: list[Packed] = []
                for _ in range(self._portion(desk)):
                    if portion and self._waiting[0].alone:
                        break
                    job = self._waiting.popleft()
                    try:
                        portion.append((job.key, self.crew.pack(job.task)))
                        desk.jobs.append(job)
                    except Exception as error:
                        yield Failed(job.key, "exception", line(error), 0.0, desk.name)
                if portion:
                    desk.worker.send(portion)
                    desk.since = time.monotonic()

    def _portion(self, desk: _Desk[WorkerT]) -> int:
        """How many jobs to send together: few in the end, so that all workers are done at about the same time."""
        if self._waiting[0].alone:
            return 1
        fair = len(self._waiting) // (2 * len(self._desks))
        return max(1, min(self.crew.most, fair, int(PORTION / max(desk.pace, 1e-6))))

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
                desk.pace = sum(outcome.seconds for outcome in said) / len(said)
                desk.jobs.clear()
                yield from said

    def _died(self, desk: _Desk[WorkerT], how: str) -> Iterator[Outcome]:
        self._dismiss(desk)
        if not desk.name:
            self._died_early(how)
        elif len(desk.jobs) > 1:
            self._again(desk)
        elif desk.jobs:
            desk.jobs[0].deaths += 1
            if desk.jobs[0].deaths <= self.retries:
                self._again(desk)
            else:
                times = f" {desk.jobs[0].deaths} times" if desk.jobs[0].deaths > 1 else ""
                yield self._failed(desk, "died", f"its worker died{times}: {how}")

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
                if len(desk.jobs) > 1:
                    self._again(desk)
                else:
                    yield self._failed(desk, "time", f"took more than {self.limit:g} s")

    def _again(self, desk: _Desk[WorkerT]) -> None:
        for job in reversed(desk.jobs):
            job.alone = True
            self._waiting.appendleft(job)

    def _failed(self, desk: _Desk[WorkerT], reason: Reason, message: str) -> Failed:
        return Failed(desk.jobs[0].key, reason, message, time.monotonic() - desk.since, desk.name)

    def _dismiss(self, *desks: _Desk[WorkerT]) -> None:
        for desk in desks:
            with undisturbed():
                self._desks.remove(desk)
                desk.worker.kill()
