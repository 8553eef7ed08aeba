"""What executors add to the work itself: 1,000 candidates of 10 ms of processor time each, on all cores.

A task counts to a number that takes one core 10 ms, so that it is the same work on a busy machine. `no executor` are
processes that were given their share of it beforehand. Workers are prepared; executors take turns, and ratios are those
within a turn: of the time on the wall, which tells little where other programs run, and of the processor time of this
process, the workers, and all that belongs to Ray. Ray's workers have the priority of all others here, not a lower one.
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


def families() -> dict[int, tuple[int, float]]:
    """Parent and processor seconds of every process (Linux)."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(folder.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def descendants() -> set[int]:
    processes, found, left = families(), set(), [os.getpid()]
    while left:
        parent = left.pop()
        left += [process for process, (its, _) in processes.items() if its == parent]
        found.add(parent)
    return found


def spent(processes: set[int]) -> float:
    return sum(seconds for process, (_, seconds) in families().items() if process in processes)


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
    tasks, rounds = (100, 3) if quick else (TASKS, 7)
    work = Counting(calibrated())
    os.environ.update(RAY_worker_niceness="0")
    wall: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    own: dict[str, set[int]] = {}
    with ExitStack() as stack:
        runs = {}
        for name in ("no executor", f"processes:{cores}", "ray"):
            before = descendants() - {os.getpid()}
            if name == "no executor":
                runs[name] = stack.enter_context(alone(work.number, cores))
            else:
                runs[name] = through(stack.enter_context(executor(name)), work)
            runs[name](tasks)
            own[name] = descendants() - before
        for turn in range(rounds):
            print(f"  round {turn + 1} of {rounds}", flush=True)
            for name, one in list(runs.items()) if turn % 2 else reversed(runs.items()):
                begin, before = time.perf_counter(), spent(own[name])
                one(tasks)
                wall.setdefault(name, []).append(time.perf_counter() - begin)
                processor.setdefault(name, []).append(spent(own[name]) - before)
    title = f"{tasks} candidates of {MILLISECONDS:g} ms of processor time, {cores} cores, workers prepared"
    table = Table(title, ["executor", "s", "to no executor", "processor s", "to no executor"])
    for name in runs:
        cells = []
        for times in (wall, processor):
            ratio = median(mine / ideal for mine, ideal in zip(times[name], times["no executor"], strict=True))
            cells += [f"{median(times[name]):.2f}", f"{ratio:.3f}"]
        table.add(name, *cells)
    return table
