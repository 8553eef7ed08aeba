"""Processes of subjects, taking turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Any

from archir.backends.speed.figures import Latency, LeftOut, Speed, Subject
from archir.diagnostics.errors import ArchError, fail
from archir.ir.graph import Graph
from archir.ir.serial import to_json

TURNS = 8
"""Processes there are at once."""
ROUNDS = 10
PATIENCE = 600.0
"""Seconds that one answer may take: loading, compiling and warming up are one. A model may have loops without end."""
PAUSE = 0.02
"""Seconds between turns: threads that wait for work go on spinning for a while."""

COMMAND = ("-P", "-m", "archir.backends.speed.process")

Watch = Callable[[Iterable[Any], int, str], Iterable[Any]]


@dataclass(frozen=True)
class Task:
    """A subject: its network, and which backend runs it, with what options of its `runs`."""

    subject: Subject
    network: Graph | Path
    backend: str
    options: Mapping[str, Any]
    needed: bool = False
    """Whether it is an error, and nothing is left out, if it cannot be measured."""


def measure(tasks: Sequence[Task], seconds: float, watch: Watch) -> tuple[list[Speed], list[LeftOut], dict[str, str]]:
    """Measure subjects, each for so long; what was found, what could not be, and what ran them. Raises ArchError."""
    found: list[Speed] = []
    left_out: list[LeftOut] = []
    machine: dict[str, str] = {}
    for begin in range(0, len(tasks), TURNS):
        with ExitStack() as stack:
            wave = [
                stack.enter_context(_Process(task, stack.enter_context(TemporaryFile())))
                for task in tasks[begin : begin + TURNS]
            ]
            failed: dict[_Process, LeftOut] = {}
            steps = [(process, turn) for turn in range(ROUNDS + 1) for process in wave]
            for process, turn in watch(steps, len(steps), "measuring"):
                try:
                    if turn == 0:
                        machine |= process.start()
                    elif process not in failed:
                        process.round(seconds / ROUNDS)
                except ArchError as error:
                    failed[process] = _left_out(process.task, error)
            found += [process.speed() for process in wave if process not in failed]
            left_out += failed.values()
    return found, left_out, machine


def _left_out(task: Task, error: ArchError) -> LeftOut:
    one = error.diagnostics[0]
    if task.needed:
        raise ArchError(replace(one, message=f"{task.subject}: {one.message}")) from None
    return LeftOut(task.subject, one.message)


class _Process:
    """A process, and what it answered; its standard error goes to a file. It ends with the `with` statement."""

    def __init__(self, task: Task, said: IO[bytes]) -> None:
        self.task = task
        self._said = said
        self._process = subprocess.Popen(
            [sys.executable, *COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._said, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )  # fmt: skip
        self._first = 0
        self._times: list[int] = []
        self._memory: int | None = None

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def start(self) -> dict[str, str]:
        """Load the network and warm it up; what runs it."""
        task = self.task
        network = task.network
        written = {"graph": to_json(network)} if isinstance(network, Graph) else {"path": str(network)}
        found = self._ask({"backend": task.backend, "options": dict(task.options), "network": written})
        self._first = found["first"]
        return dict(found["machine"])

    def round(self, seconds: float) -> None:
        """Run it for so long."""
        time.sleep(PAUSE)
        found = self._ask(round(1e9 * seconds))
        self._times += found["times"]
        self._memory = found["memory"]

    def speed(self) -> Speed:
        """What came of all rounds."""
        return Speed(
            self.task.subject, self.task.options["threads"], Latency.of(self._times), self._memory, self._first
        )

    def _ask(self, what: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = Timer(PATIENCE, self._process.kill)
        late.start()
        begun = time.monotonic()
        try:
            print(json.dumps(what), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late.cancel()
        if not line and time.monotonic() - begun >= PATIENCE:
            raise fail("A1508", f"its process did not answer for {PATIENCE:g} seconds, and was ended")
        if not line:
            raise fail("A1508", f"its process ended with {self._process.wait()}{self._last_words()}")
        found: dict[str, Any] = json.loads(line)
        if "code" in found:
            raise fail(found["code"], found["message"], None, found["hint"])
        return found

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1][:300]}" if said else ""
