"""Workers as processes on this machine.

Each worker has its own pipe and shares no lock or queue with others, so that a dying worker cannot block
them.
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
from archir.search.executors.supervised import DiedError, Worker, WorkerPool
from archir.search.executors.tasks import Outcome, Packed, Ready, Score, Work, attempt_all, error_line, prepare
from archir.search.signals import unblock_sigint

_EXIT_TIMEOUT = 2.0
"""Maximum time in seconds to wait for a process to exit after its pipe has closed."""


class Process(Worker):
    """Worker process, started with `spawn`, because neither CUDA nor torch's threads survive a fork."""

    def __init__(self, packed: bytes, cores: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(child_pipe, packed, cores), name="archir worker"
        )
        self.process.start()
        child_pipe.close()

    def send(self, batch: Sequence[Packed]) -> None:
        """Send a batch of tasks to the worker, which must be idle. If the worker is dead, `receive` will report it."""
        try:
            self.pipe.send(batch)
        except OSError:
            return

    def receive(self) -> Ready | list[Outcome]:
        """Return the next message, even if the worker sent it before dying. Raises DiedError if there is none left."""
        try:
            message: Ready | list[Outcome] = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(_EXIT_TIMEOUT)
            raise DiedError(_exit_reason(self.process.exitcode)) from None
        return message

    def kill(self) -> None:
        """Kill the process and wait for it to exit."""
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
        """Start the standard library's resource tracker.

        If it were started later, it would unblock SIGINT inside `deferred_sigint`.
        """
        if os.name == "posix":
            from multiprocessing import resource_tracker

            resource_tracker.ensure_running()

    def close(self) -> None:
        """Release the pickled work."""
        self._packed = b""

    def size(self) -> int:
        """Return the number of processes."""
        return self._number

    def load(self, work: Work) -> None:
        """Pickle the work once for all processes. Raises ArchError (A2604) if that fails."""
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
        """Return the processes that have sent a message or exited; wait for one, at most `timeout` seconds."""
        sources = {worker: (worker.pipe, worker.process.sentinel) for worker in workers}
        readable = wait([source for pair in sources.values() for source in pair], timeout)
        return [worker for worker, pair in sources.items() if any(source in readable for source in pair)]


def _exit_reason(exitcode: int | None) -> str:
    """Return a description of how a process ended, such as "killed by SIGKILL"."""
    if exitcode is None or exitcode >= 0:
        return f"it ended with code {exitcode}"
    try:
        return f"killed by {signal.Signals(-exitcode).name}"
    except ValueError:  # most real-time signals have no name
        return f"killed by signal {-exitcode}"


def _serve(pipe: Connection, packed: bytes, cores: int) -> None:
    """Main function of a worker process: prepares the work, then scores batches until the pipe closes."""
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
    """End this process as soon as its parent has ended, even in the middle of a task."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


class _Pickler(ForkingPickler):
    """Pickler with self-contained output, which any number of processes can load.

    Torch registers reducers with `ForkingPickler` that move tensors to shared memory, which only one process can
    fetch; they are disabled here.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.dispatch_table = copyreg.dispatch_table


class _Packed:
    """Pickled work that is unpickled in `prepare`, so that an exception while unpickling is reported to the parent."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def prepare(self) -> Score:
        work: Work = ForkingPickler.loads(self._packed)
        return work.prepare()
