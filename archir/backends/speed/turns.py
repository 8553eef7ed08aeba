"""Measures subjects in processes that take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Timer
from typing import IO, Any

from archir.backends.speed.measurements import Latency, LeftOut, Speed, Subject
from archir.costs.latencies.measurement import ProgressWrapper
from archir.diagnostics.errors import ArchError, fail
from archir.ir.graph import Graph
from archir.ir.serial import to_json

MAX_PROCESSES = 8
"""Maximum number of processes that take turns at the same time."""
ROUNDS = 10
"""Number of measuring rounds per subject."""
ANSWER_TIMEOUT = 600.0
"""Timeout in seconds for one answer, as a model may loop forever. Loading, compiling and warming up count as one
answer."""
PAUSE = 0.02
"""Pause between turns in seconds, since idle worker threads keep spinning for a while."""

COMMAND = ("-P", "-m", "archir.backends.speed.process")
"""Python arguments that start a worker process."""


@dataclass(frozen=True)
class Task:
    """Subject to measure: its network, the backend that runs it, and the options for the backend's `runs`."""

    subject: Subject
    network: Graph | Path
    backend: str
    options: Mapping[str, Any]
    is_required: bool = False
    """If True, an error is raised if the subject cannot be measured; otherwise, the subject is left out."""


def measure(
    tasks: Sequence[Task], seconds: float, track: ProgressWrapper
) -> tuple[list[Speed], list[LeftOut], dict[str, str]]:
    """Measure each subject for `seconds` in total.

    Returns the measurements, the subjects that could not be measured, and a description of the runtimes. Raises
    ArchError if a required subject cannot be measured.
    """
    speeds: list[Speed] = []
    left_out: list[LeftOut] = []
    machine: dict[str, str] = {}
    for begin in range(0, len(tasks), MAX_PROCESSES):
        with ExitStack() as stack:
            wave = [
                stack.enter_context(_Process(task, stack.enter_context(TemporaryFile())))
                for task in tasks[begin : begin + MAX_PROCESSES]
            ]
            failed: dict[_Process, LeftOut] = {}
            steps = [(process, turn) for turn in range(ROUNDS + 1) for process in wave]
            for process, turn in track(steps, len(steps), "measuring"):
                try:
                    if turn == 0:
                        machine |= process.start()
                    elif process not in failed:
                        process.round(seconds / ROUNDS)
                except ArchError as error:
                    failed[process] = _failed_subject(process.task, error)
            speeds += [process.speed() for process in wave if process not in failed]
            left_out += failed.values()
    return speeds, left_out, machine


def _failed_subject(task: Task, error: ArchError) -> LeftOut:
    """Return the record of a subject that could not be measured. Raises ArchError if the subject is required."""
    diagnostic = error.diagnostics[0]
    if task.is_required:
        raise ArchError(replace(diagnostic, message=f"{task.subject}: {diagnostic.message}")) from None
    return LeftOut(task.subject, diagnostic.message)


class _Process:
    """Worker process for a task, with its answers so far; leaving the `with` statement kills it. `stderr` receives
    its errors."""

    def __init__(self, task: Task, stderr: IO[bytes]) -> None:
        self.task = task
        self._stderr = stderr
        self._process = subprocess.Popen(
            [sys.executable, *COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._stderr, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )  # fmt: skip
        self._first = 0
        self._rounds: list[list[int]] = []
        self._memory: int | None = None

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def start(self) -> dict[str, str]:
        """Load the network and warm it up; return a description of the runtime."""
        task = self.task
        network = task.network
        network_data = {"graph": to_json(network)} if isinstance(network, Graph) else {"path": str(network)}
        answer = self._ask({"backend": task.backend, "options": dict(task.options), "network": network_data})
        self._first = answer["first"]
        return dict(answer["machine"])

    def round(self, seconds: float) -> None:
        """Measure runs for `seconds`, and store the results."""
        time.sleep(PAUSE)
        answer = self._ask(round(1e9 * seconds))
        self._rounds.append(answer["times"])
        self._memory = answer["memory"]

    def speed(self) -> Speed:
        """Return the measurements of all rounds so far."""
        return Speed(self.task.subject, Latency.of(*self._rounds), self._memory, self._first)

    def _ask(self, request: Any) -> dict[str, Any]:
        """Send a request; return the answer. Raises ArchError (A1508, or the code in the answer)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        expired = Event()

        def expire() -> None:
            expired.set()
            self._process.kill()

        timer = Timer(ANSWER_TIMEOUT, expire)
        timer.start()
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line and expired.is_set():
            raise fail("A1508", f"its process did not answer for {ANSWER_TIMEOUT:g} seconds, and was ended")
        if not line:
            raise fail("A1508", f"its process ended with {self._process.wait()}{self._last_error_line()}")
        answer: dict[str, Any] = json.loads(line)
        if "code" in answer:
            raise fail(answer["code"], answer["message"], None, answer["hint"])
        return answer

    def _last_error_line(self) -> str:
        """Return the last line of the process's standard error for use in a message; "" if there is none."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode("utf-8", "replace").split("\n")
        nonempty = [line.strip() for line in lines if line.strip()]
        return f": {nonempty[-1][:300]}" if nonempty else ""
