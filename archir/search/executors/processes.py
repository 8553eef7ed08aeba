"""Workers that are processes of this machine.

Each has a pipe of its own and shares nothing with the others, no lock and no queue: whatever one of them is doing when
it dies, the others go on.
"""

from __future__ import annotations

import copyreg
import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from archir.diagnostics.errors import fail
from archir.search.executors.guard import Packed, Ready, attempts, line, prepare
from archir.search.executors.interrupts import listen
from archir.search.executors.protocol import Outcome, Score, Work
from archir.search.executors.workers import Crew, DiedError, Worker

_PATIENCE = 2.0
"""Seconds between the end of a process's pipe and the end of the process."""


class Process(Worker):
    """A process, started afresh (`spawn`): neither CUDA nor the threads of torch survive a fork."""

    def __init__(self, packed: bytes, cores: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, packed, cores), name="archir worker")
        self.process.start()
        theirs.close()

    def send(self, portion: Sequence[Packed]) -> None:
        """Send it all; the worker waits for it."""
        try:
            self.pipe.send(portion)
        except OSError:
            return

    def receive(self) -> Ready | list[Outcome]:
        """What the pipe holds; what a process said before it ended counts."""
        try:
            said: Ready | list[Outcome] = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(_PATIENCE)
            raise DiedError(_how(self.process.exitcode)) from None
        return said

    def kill(self) -> None:
        """End it, and wait until it has ended."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()


class Processes(Crew[Process]):
    """A number of processes of a number of cores each. Every one has a copy of the work."""

    most = 1

    def __init__(self, number: int, cores: int) -> None:
        self._number, self._cores = number, cores
        self._packed = b""

    def open(self) -> None:
        """Have the standard library's own helper process there: as it starts, it lets SIGINT through that
        `undisturbed` holds back."""
        if os.name == "posix":
            from multiprocessing import resource_tracker

            resource_tracker.ensure_running()

    def close(self) -> None:
        """Forget the work."""
        self._packed = b""

    def size(self) -> int:
        """The number of processes."""
        return self._number

    def load(self, work: Work) -> None:
        """Pickle the work, once for all."""
        try:
            self._packed = bytes(_Pickler.dumps(work))
        except Exception as error:
            raise fail("A2604", f"the work cannot be sent to workers: {line(error)}") from error

    def pack(self, task: Any) -> bytes:
        """Pickle it."""
        return bytes(_Pickler.dumps(task))

    def hire(self) -> Process:
        """Start a process."""
        return Process(self._packed, self._cores)

    def speaking(self, workers: Sequence[Process], timeout: float | None) -> list[Process]:
        """Processes that said something, or ended."""
        sources = {worker: (worker.pipe, worker.process.sentinel) for worker in workers}
        heard = wait([source for pair in sources.values() for source in pair], timeout)
        return [worker for worker, pair in sources.items() if any(source in heard for source in pair)]


def _how(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"killed by {signal.Signals(-exitcode).name}"
    return f"it ended with code {exitcode}"


def _serve(pipe: Connection, packed: bytes, cores: int) -> None:
    """What a worker does, until its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; who started us says what follows
    listen()
    threading.Thread(target=_follow, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(cores)
    score, ready = prepare(_Packed(packed))
    try:
        pipe.send(ready)
        while score is not None:
            pipe.send(attempts(score, pipe.recv()))
    except (EOFError, OSError):
        return


def _follow() -> None:
    """End this process when the one that started it ends, in the midst of a task."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


class _Pickler(ForkingPickler):
    """Everything is in the bytes, for any number of processes to read. Torch teaches `ForkingPickler` to leave tensors
    behind, where one process can fetch them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.dispatch_table = copyreg.dispatch_table


class _Packed:
    """Work that is unpickled where exceptions are answers."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def prepare(self) -> Score:
        work: Work = ForkingPickler.loads(self._packed)
        return work.prepare()
