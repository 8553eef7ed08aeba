"""What executors add to the work itself: 1,000 candidates of 10 ms of processor time each, on all cores.

A task counts to a number that takes one core 10 ms, so that it is the same work on a busy machine. `no executor` are
processes that were given their share of it beforehand. Workers are prepared; candidates take turns, and ratios are
those within a turn.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median

from measure import Table

from archir.search.executors import Done, Executor, executor

TASKS = 1000
MILLISECONDS = 10.0


def count(number: int) -> int:
    total = 0
    for i in range(number):
        total += i & 7
    return total


def calibrated() -> int:
    """How far one core counts in the time of a task; the fastest of several is the one that nobody disturbed."""
    number = 200_000
    times = []
    for _ in range(15):
        begin = time.process_time()
        count(number)
        times.append(time.process_time() - begin)
    return round(number * MILLISECONDS / 1000 / min(times))


@dataclass(frozen=True, eq=False)
class Counting:
    number: int

    def prepare(self) -> Callable[[object], Mapping[str, float]]:
        return lambda task: {"total": count(self.number)}


def serve(pipe: Connection, number: int) -> None:
    while times := pipe.recv():
        for _ in range(times):
            count(number)
        pipe.send(None)


@contextmanager
def alone(number: int, cores: int) -> Iterator[Callable[[int], None]]:
    """Plain processes: a share for each, and one answer."""
    context = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(cores):
        ours, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, number), daemon=True).start()
        pipes.append(ours)

    def run(tasks: int) -> None:
        for i, pipe in enumerate(pipes):
            pipe.send(tasks // cores + (i < tasks % cores))
        for pipe in pipes:
            pipe.recv()

    yield run
    for pipe in pipes:
        pipe.send(0)


def through(workers: Executor, work: Counting) -> Callable[[int], None]:
    def run(tasks: int) -> None:
        found = list(workers.run(work, [(str(key), key) for key in range(tasks)]))
        assert len({outcome.key for outcome in found}) == len(found) == tasks
        assert all(isinstance(outcome, Done) for outcome in found)

    return run


def run(quick: bool) -> Table:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    tasks, rounds = (100, 3) if quick else (TASKS, 9)
    work = Counting(calibrated())
    times: dict[str, list[float]] = {}
    with ExitStack() as stack:
        runs = {"no executor": stack.enter_context(alone(work.number, cores))}
        for name in (f"processes:{cores}", "ray"):
            runs[name] = through(stack.enter_context(executor(name)), work)
        for turn in range(rounds + 1):
            print(f"  round {turn} of {rounds}", flush=True)
            for name, one in list(runs.items()) if turn % 2 else reversed(runs.items()):
                begin = time.perf_counter()
                one(tasks)
                if turn:
                    times.setdefault(name, []).append(time.perf_counter() - begin)
    title = f"{tasks} candidates of {MILLISECONDS:g} ms of processor time, {cores} cores, workers prepared"
    table = Table(title, ["executor", "s", "to no executor", "lost to orchestration"])
    ideal = times["no executor"]
    for name in runs:
        ratio = median(mine / theirs for mine, theirs in zip(times[name], ideal, strict=True))
        lost = "" if name == "no executor" else f"{100 * (1 - 1 / ratio):.1f}%"
        table.add(name, f"{median(times[name]):.2f}", f"{ratio:.3f}", lost)
    return table
