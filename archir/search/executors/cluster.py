"""Workers as actors on a Ray cluster, which is either started locally by this process or already running and
joined.

Each actor prepares once. The work is put into the cluster's object store, once per machine, from which actors
read arrays without copying. Ray's own restarts and retries are disabled: `Supervised` handles dying workers.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from archir.diagnostics.errors import fail
from archir.search.executors.supervised import DiedError, Worker, WorkerPool
from archir.search.executors.tasks import Outcome, Packed, Ready, Score, Work, attempt_all, error_line, prepare

RAY_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
"""Environment variables for Ray: disable usage reports, and hide all GPUs from workers that were assigned none
(Ray warns if this is unset)."""

_CONNECT_TIMEOUT = 10.0
"""Timeout in seconds for connecting to the cluster's address."""


class _Scorer:
    """Actor class, run in the actor's process: prepares the work and scores batches of tasks."""

    def __init__(self) -> None:
        self._score: Score | None = None

    def prepare(self, work: Work) -> Ready:
        """Prepare the work; called once, before `score`."""
        self._score, ready = prepare(work)
        return ready

    def score(self, batch: Sequence[Packed]) -> list[Outcome]:
        """Score a batch of pickled tasks."""
        assert self._score is not None
        return attempt_all(self._score, batch)


class Actor(Worker):
    """Handle of a Ray actor, and the future of its pending answer, if any."""

    def __init__(self, ray: Any, handle: Any, work: Any) -> None:
        self._ray, self._handle = ray, handle
        self.answer = handle.prepare.remote(work)

    def send(self, batch: Sequence[Packed]) -> None:
        """Start scoring a batch of tasks."""
        self.answer = self._handle.score.remote(batch)

    def receive(self) -> Ready | list[Outcome]:
        """Wait for the pending answer and return it. Raises DiedError if the actor died."""
        pending, self.answer, errors = self.answer, None, self._ray.exceptions
        try:
            reply: Ready | list[Outcome] = self._ray.get(pending)
        except errors.RayTaskError as error:  # the work could not be unpickled in the actor
            return Ready("on Ray", error_line(error.cause).partition(" traceback: ")[0])
        except errors.RayError as error:
            detail = re.search(r"Worker exit detail: ([^.]*)", str(error))
            raise DiedError(detail[1] if detail else error_line(error)) from error
        return reply

    def kill(self) -> None:
        """Kill the actor's process."""
        self._ray.kill(self._handle, no_restart=True)


class ActorPool(WorkerPool[Actor]):
    """Pool of Ray actors with `cores` cores and `gpus` GPUs each, as many as the cluster can hold.

    If `address` is None, a local cluster is started.
    """

    max_batch = 32

    def __init__(self, address: str | None, cores: float, gpus: float) -> None:
        try:
            self._ray = import_module("ray")
        except ImportError as error:
            text = f"Ray is not installed: {error_line(error)}"
            raise fail("A2602", text, None, "pip install 'archir[ray]'") from error
        if (address or "").startswith("ray://"):
            try:
                import_module("grpc")
            except ImportError as error:
                text = f"Ray's client, which joins a cluster of other machines, is not installed: {error_line(error)}"
                raise fail("A2602", text, None, "pip install 'ray[client]'") from error
        self._address, self._cores, self._gpus = address, cores, gpus
        self._owns_cluster = False
        self._work: Any = None

    def open(self) -> None:
        """Start or join the cluster, unless this process is already connected to one. Raises ArchError (A2605)."""
        if self._ray.is_initialized():
            return
        self._ping()
        with _quiet_environment(), _kept_sigterm_handler():
            try:
                if self._address is None:
                    self._ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
                else:
                    self._ray.init(address=self._address, log_to_driver=False, logging_level="ERROR")
            except Exception as error:
                action = f"join the Ray cluster at `{self._address}`" if self._address else "start a Ray cluster"
                hint = "if the cluster has a token, set RAY_AUTH_MODE=token and the same token here"
                text = f"cannot {action}: {error_line(error)}"
                raise fail("A2605", text, None, hint if self._address else None) from error
        # Ray prints deaths of workers, which are outcomes here, on stdout. Ray's debugger silences them in the same
        # way.
        self._ray._private.worker._worker_logs_enabled = False
        self._owns_cluster = True

    def _ping(self) -> None:
        """Check that the cluster address accepts connections; Ray itself would retry for minutes. Raises ArchError
        (A2605)."""
        host, _, port = (self._address or "").removeprefix("ray://").rpartition(":")
        if host:
            try:
                socket.create_connection((host, int(port)), _CONNECT_TIMEOUT).close()
            except (OSError, OverflowError) as error:
                raise fail("A2605", f"no Ray cluster answers at `{self._address}`: {error_line(error)}") from error

    def close(self) -> None:
        """Disconnect from the cluster, and stop it if this process started it."""
        self._work = None
        if self._owns_cluster:
            self._owns_cluster = False
            self._ray.shutdown()

    def size(self) -> int:
        """Return how many actors fit on the machines that are now in the cluster. Raises ArchError (A2605) if none
        does."""
        count = 0
        needed = [(name, amount) for name, amount in (("CPU", self._cores), ("GPU", self._gpus)) if amount]
        for node in self._ray.nodes():
            if node["Alive"]:
                count += min((int(node["Resources"].get(name, 0) / amount) for name, amount in needed), default=1)
        if not count:
            raise fail("A2605", f"no machine of the Ray cluster has {self._cores:g} cores and {self._gpus:g} GPUs")
        return count

    def load(self, work: Work) -> None:
        """Put the work into the cluster's object store. Raises ArchError (A2604) if it cannot be pickled."""
        try:
            self._work = self._ray.put(work)
        except Exception as error:
            raise fail("A2604", f"the work cannot be sent to workers: {error_line(error)}") from error

    def pack(self, task: Any) -> bytes:
        """Pickle a task with Ray's cloudpickle, which also supports classes and functions defined in scripts."""
        packed: bytes = self._ray.cloudpickle.dumps(task)
        return packed

    def spawn(self) -> Actor:
        """Start an actor; Ray delays it until enough cores are free."""
        remote_class = self._ray.remote(_Scorer)
        options = {"num_cpus": self._cores, "num_gpus": self._gpus, "max_restarts": 0, "max_task_retries": 0}
        return Actor(self._ray, remote_class.options(**options).remote(), self._work)

    def ready(self, workers: Sequence[Actor], timeout: float | None) -> list[Actor]:
        """Return the actors that have answered or failed; wait for one, at most `timeout` seconds."""
        pending = {worker.answer: worker for worker in workers if worker.answer is not None}
        arrived, _ = self._ray.wait(list(pending), num_returns=1, timeout=timeout)
        return [pending[answer] for answer in arrived]


@contextmanager
def _quiet_environment() -> Iterator[None]:
    """Context manager that sets the variables of `RAY_ENVIRONMENT` and finally restores the old values."""
    old = dict(os.environ)
    os.environ.update(RAY_ENVIRONMENT)
    try:
        yield
    finally:
        for name in RAY_ENVIRONMENT:
            os.environ.pop(name, None)
            os.environ.update({name: old[name]} if name in old else {})


@contextmanager
def _kept_sigterm_handler() -> Iterator[None]:
    """Context manager that restores the previous SIGTERM handler at its end.

    If there was no handler before, Ray's handler stays, which shuts this process down cleanly.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not signal.SIG_DFL and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
