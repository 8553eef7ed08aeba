"""Workers that are actors on a Ray cluster: one of this process's own, on this machine, or one that is joined.

Actors prepare once. The work is in the cluster's object store, once on each machine, and its arrays are read from there
without copies. Ray's own restarts and retries are off: who died, and what follows, is `Supervised`'s to say.
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
from archir.search.executors.guard import Packed, Ready, attempts, line, prepare
from archir.search.executors.protocol import Outcome, Score, Work
from archir.search.executors.workers import Crew, DiedError, Worker

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
"""No reports to anybody; and workers without a GPU of their own see none, which Ray warns of if it is not said."""

_PATIENCE = 10.0
"""Seconds for a connection to a machine of the cluster."""


class _Scorer:
    """What runs in an actor's process."""

    def __init__(self) -> None:
        self._score: Score | None = None

    def prepare(self, work: Work) -> Ready:
        self._score, ready = prepare(work)
        return ready

    def score(self, portion: Sequence[Packed]) -> list[Outcome]:
        assert self._score is not None
        return attempts(self._score, portion)


class Actor(Worker):
    """An actor, and the answer that it owes, if any."""

    def __init__(self, ray: Any, handle: Any, work: Any) -> None:
        self._ray, self._handle = ray, handle
        self.answer = handle.prepare.remote(work)

    def send(self, portion: Sequence[Packed]) -> None:
        """Call it."""
        self.answer = self._handle.score.remote(portion)

    def receive(self) -> Ready | list[Outcome]:
        """What it answered."""
        answer, self.answer, errors = self.answer, None, self._ray.exceptions
        try:
            said: Ready | list[Outcome] = self._ray.get(answer)
        except errors.RayTaskError as error:  # work that cannot be unpickled there
            return Ready("on Ray", line(error.cause).partition(" traceback: ")[0])
        except errors.RayError as error:
            detail = re.search(r"Worker exit detail: ([^.]*)", str(error))
            raise DiedError(detail[1] if detail else line(error)) from error
        return said

    def kill(self) -> None:
        """End its process."""
        self._ray.kill(self._handle, no_restart=True)


class Actors(Crew[Actor]):
    """As many actors as have room, of so many cores and GPUs each. Of no `address`: a cluster of our own."""

    most = 32

    def __init__(self, address: str | None, cores: float, gpus: float) -> None:
        try:
            self._ray = import_module("ray")
        except ImportError as error:
            raise fail("A2602", f"Ray is not there: {line(error)}", None, "pip install 'archir[ray]'") from error
        if (address or "").startswith("ray://"):
            try:
                import_module("grpc")
            except ImportError as error:
                message = f"Ray cannot join a cluster from outside: {line(error)}"
                raise fail("A2602", message, None, "pip install 'ray[client]'") from error
        self._address, self._cores, self._gpus = address, cores, gpus
        self._ours = False
        self._work: Any = None

    def open(self) -> None:
        """Start or join the cluster, unless this process is part of one."""
        if self._ray.is_initialized():
            return
        self._knock()
        with _quietly(), _signals():
            try:
                if self._address is None:
                    self._ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
                else:
                    self._ray.init(address=self._address, log_to_driver=False, logging_level="ERROR")
            except Exception as error:
                where = f"join the Ray cluster at `{self._address}`" if self._address else "start a Ray cluster"
                hint = (
                    "clusters with a token want RAY_AUTH_MODE=token and the same token here" if self._address else None
                )
                raise fail("A2605", f"cannot {where}: {line(error)}", None, hint) from error
        # Workers' deaths, which Ray prints on stdout, are answers here. Ray's debugger silences them in the same way.
        self._ray._private.worker._worker_logs_enabled = False
        self._ours = True

    def _knock(self) -> None:
        """Look whether anybody listens at the address: Ray itself would try for minutes."""
        host, _, port = (self._address or "").removeprefix("ray://").rpartition(":")
        if host:
            try:
                socket.create_connection((host, int(port)), _PATIENCE).close()
            except (OSError, OverflowError) as error:
                raise fail("A2605", f"no Ray cluster answers at `{self._address}`: {line(error)}") from error

    def close(self) -> None:
        """Leave the cluster; one of our own ends."""
        self._work = None
        if self._ours:
            self._ours = False
            self._ray.shutdown()

    def size(self) -> int:
        """How many actors fit on the machines as they are now, side by side."""
        room = 0
        for node in self._ray.nodes():
            has = node["Resources"] if node["Alive"] else {}
            wanted = [("CPU", self._cores), ("GPU", self._gpus)]
            room += min((int(has.get(name, 0) / number) for name, number in wanted if number), default=1)
        if not room:
            raise fail("A2605", f"no machine of the Ray cluster has {self._cores:g} cores and {self._gpus:g} GPUs")
        return room

    def load(self, work: Work) -> None:
        """Put the work into the object store."""
        try:
            self._work = self._ray.put(work)
        except Exception as error:
            raise fail("A2604", f"the work cannot be sent to workers: {line(error)}") from error

    def pack(self, task: Any) -> bytes:
        """Pickle it as Ray does, which knows what is defined in scripts."""
        packed: bytes = self._ray.cloudpickle.dumps(task)
        return packed

    def hire(self) -> Actor:
        """Start an actor; it waits where others use the cluster's cores."""
        kind = self._ray.remote(_Scorer)
        options = {"num_cpus": self._cores, "num_gpus": self._gpus, "max_restarts": 0, "max_task_retries": 0}
        return Actor(self._ray, kind.options(**options).remote(), self._work)

    def speaking(self, workers: Sequence[Actor], timeout: float | None) -> list[Actor]:
        """Actors whose answer is there, or will never be."""
        owed = {worker.answer: worker for worker in workers if worker.answer is not None}
        found, _ = self._ray.wait(list(owed), num_returns=1, timeout=timeout)
        return [owed[answer] for answer in found]


@contextmanager
def _quietly() -> Iterator[None]:
    """The environment with `QUIET`, and then as it was."""
    before = {name: os.environ.get(name) for name in QUIET}
    os.environ.update(QUIET)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _signals() -> Iterator[None]:
    """A handler of SIGTERM as it was; where there is none, that of Ray stays, which ends this process in good order."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not signal.SIG_DFL and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
