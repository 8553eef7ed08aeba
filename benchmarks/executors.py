"""Measure the overhead of executors: 1,000 candidates of 10 ms of processor time each, on all cores.

A task counts to a number that takes one core 10 ms, so it is the same work on a busy machine. `no executor` stands for
processes that get their share of the tasks in advance. Workers are prepared before; executors take turns, and ratios
are taken within a turn: of wall time, which depends on other running programs, and of the processor time of this
process, the workers, and all processes of Ray. Ray's workers get normal instead of lower priority.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from measure import Table

from archir.search.executors import Done, Executor, executor

TASKS = 1000
MILLISECONDS = 10.0


def count(number: int) -> int:
    """Count to `number`, and return a sum."""
    total = 0
    for i in range(number):
        total += i & 7
    return total


def calibrate() -> int:
    """Return how far a core counts in the time of a task; the minimum of several times is the least disturbed."""
    number = 200_000
    times = []
    for _ in range(15):
        begin = time.process_time()
        count(number)
        times.append(time.process_time() - begin)
    return round(number * MILLISECONDS / 1000 / min(times))


def process_table() -> dict[int, tuple[int, float]]:
    """Return the parent and the processor seconds of every process (Linux)."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        processes[int(folder.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return processes


def descendants() -> set[int]:
    """Return this process and all its descendants."""
    processes, family, pending = process_table(), set(), [os.getpid()]
    while pending:
        parent = pending.pop()
        pending += [process for process, (parent_id, _) in processes.items() if parent_id == parent]
        family.add(parent)
    return family


def processor_seconds(processes: set[int]) -> float:
    """Return the processor seconds of processes."""
    return sum(seconds for process, (_, seconds) in process_table().items() if process in processes)


@dataclass(frozen=True, eq=False)
class Counting:
    """The tasks of a search: each counts to `number`."""

    number: int

    def prepare(self) -> Callable[[object], Mapping[str, float]]:
        return lambda task: {"total": count(self.number)}


def serve(pipe: Connection, number: int) -> None:
    """Count as often as a pipe requests, until it sends 0."""
    while times := pipe.recv():
        for _ in range(times):
            count(number)
        pipe.send(None)


@contextmanager
def plain_processes(number: int, cores: int) -> Iterator[Callable[[int], None]]:
    """Start plain processes, and yield a function that runs tasks in them: one share and one answer each."""
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


def with_executor(workers: Executor, work: Counting) -> Callable[[int], None]:
    """Return a function that runs tasks with an executor."""

    def run(tasks: int) -> None:
        outcomes = list(workers.run(work, [(str(key), key) for key in range(tasks)]))
        assert len({outcome.key for outcome in outcomes}) == len(outcomes) == tasks
        assert all(isinstance(outcome, Done) for outcome in outcomes)

    return run


def run(quick: bool) -> Table:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    tasks, rounds = (100, 3) if quick else (TASKS, 7)
    work = Counting(calibrate())
    os.environ.update(RAY_worker_niceness="0")
    wall: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    worker_processes: dict[str, set[int]] = {}
    with ExitStack() as stack:
        runs = {}
        for name in ("no executor", f"processes:{cores}", "ray"):
            before = descendants() - {os.getpid()}
            if name == "no executor":
                runs[name] = stack.enter_context(plain_processes(work.number, cores))
            else:
                runs[name] = with_executor(stack.enter_context(executor(name)), work)
            runs[name](tasks)
            worker_processes[name] = descendants() - before
        for turn in range(rounds):
            print(f"  round {turn + 1} of {rounds}", flush=True)
            for name, run_tasks in list(runs.items()) if turn % 2 else reversed(runs.items()):
                begin, before = time.perf_counter(), processor_seconds(worker_processes[name])
                run_tasks(tasks)
                wall.setdefault(name, []).append(time.perf_counter() - begin)
                processor.setdefault(name, []).append(processor_seconds(worker_processes[name]) - before)
    title = f"{tasks} candidates of {MILLISECONDS:g} ms of processor time, {cores} cores, workers prepared"
    table = Table(title, ["executor", "s", "to no executor", "processor s", "to no executor"])
    for name in runs:
        cells = []
        for times in (wall, processor):
            ratio = median(mine / ideal for mine, ideal in zip(times[name], times["no executor"], strict=True))
            cells += [f"{median(times[name]):.2f}", f"{ratio:.3f}"]
        table.add(name, *cells)
    return table
