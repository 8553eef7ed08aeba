"""Workers that are processes on this machine.

Each worker has its own pipe and shares no lock and no queue with others: the death of one cannot block the others.
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
from archir.search.executors.attempts import Packed, Ready, attempt_all, error_line, prepare
from archir.search.executors.interrupts import unblock_sigint
from archir.search.executors.protocol import Outcome, Score, Work
from archir.search.executors.workers import DiedError, Worker, WorkerPool

_EXIT_TIMEOUT = 2.0
"""Maximum time in seconds between the end of a process's pipe and the end of the process."""


class Process(Worker):
    """Worker process, started with `spawn`: neither CUDA nor the threads of torch survive a fork."""

    def __init__(self, packed: bytes, cores: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(child_pipe, packed, cores), name="archir worker"
        )
        self.process.start()
        child_pipe.close()

    def send(self, batch: Sequence[Packed]) -> None:
        """Send a batch of tasks; the worker is waiting for it. A dead worker is detected by `receive`."""
        try:
            self.pipe.send(batch)
        except OSError:
            return

    def receive(self) -> Ready | list[Outcome]:
        """Return the next message of the worker; messages sent before it died are still received."""
        try:
            message: Ready | list[Outcome] = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(_EXIT_TIMEOUT)
            raise DiedError(_exit_reason(self.process.exitcode)) from None
        return message

    def kill(self) -> None:
        """Kill the process and wait until it has ended."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()


class ProcessPool(WorkerPool[Process]):
    """Pool of `number` processes with `cores` cores each. Every process has its own copy of the work."""

    max_batch = 1

    def __init__(self, number: int, cores: int) -> None:
        self._number, self._cores = number, cores
        self._packed = b""

    def open(self) -> None:
        """Start the standard library's resource tracker now: starting it later would unblock SIGINT inside
        `deferred_sigint`."""
        if os.name == "posix":
            from multiprocessing import resource_tracker

            resource_tracker.ensure_running()

    def close(self) -> None:
        """Drop the pickled work."""
        self._packed = b""

    def size(self) -> int:
        """Return the number of processes."""
        return self._number

    def load(self, work: Work) -> None:
        """Pickle the work, once for all processes."""
        try:
            self._packed = bytes(_Pickler.dumps(work))
        except Exception as error:
            raise fail("A2604", f"the work cannot be sent to workers: {error_line(error)}") from error

    def pack(self, task: Any) -> bytes:
        """Pickle a task."""
        return bytes(_Pickler.dumps(task))

    def spawn(self) -> Process:
        """Start a process."""
        return Process(self._packed, self._cores)

    def ready(self, workers: Sequence[Process], timeout: float | None) -> list[Process]:
        """Return the processes that have sent a message, or ended."""
        sources = {worker: (worker.pipe, worker.process.sentinel) for worker in workers}
        readable = wait([source for pair in sources.values() for source in pair], timeout)
        return [worker for worker, pair in sources.items() if any(source in readable for source in pair)]


def _exit_reason(exitcode: int | None) -> str:
    """Describe how a process ended."""
    if exitcode is not None and exitcode < 0:
        return f"killed by {signal.Signals(-exitcode).name}"
    return f"it ended with code {exitcode}"


def _serve(pipe: Connection, packed: bytes, cores: int) -> None:
    """Main function of a worker process: prepare, then score batches until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent handles it
    unblock_sigint()
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(cores)
    score, ready = prepare(_Packed(packed))
    try:
        pipe.send(ready)
        while score is not None:
            pipe.send(attempt_all(score, pipe.recv()))
    except (EOFError, OSError):
        return


def _exit_with_parent() -> None:
    """End this process as soon as its parent ends, even during a task."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


class _Pickler(ForkingPickler):
    """Pickler whose output contains everything, so that any number of processes can read it.

    Torch registers reducers with `ForkingPickler` that put tensors into shared memory, which one process can fetch;
    here they are not used.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.dispatch_table = copyreg.dispatch_table


class _Packed:
    """Pickled work that is unpickled in `prepare`, where exceptions become answers to the parent."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def prepare(self) -> Score:
        work: Work = ForkingPickler.loads(self._packed)
        return work.prepare()
