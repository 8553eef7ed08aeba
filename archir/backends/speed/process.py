"""Worker process for one subject (see `Subject`), controlled by its parent over pipes.

It is started with `python -m archir.backends.speed.process`.

The first line of its input describes the subject: `{"backend", "options", "network": {"graph"} or {"path"}}`.
Each further line is the duration of a measuring round in nanoseconds, answered with the time of each run. The
process ends when its standard input is closed, even in the middle of a round.
"""

from __future__ import annotations

import gc
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import archir.ops  # noqa: F401  (declares the operations)
from archir import backends
from archir.diagnostics.errors import ArchError
from archir.ir.serial import from_json
from archir.utils import parent

WARMUP_RUNS = 2
"""Number of unmeasured warm-up runs after the first run."""


class Runner(Protocol):
    """Network that a backend has prepared for repeated runs, with its inputs."""

    @property
    def machine(self) -> dict[str, str]:
        """Names and versions of the runtime."""
        ...

    def run(self) -> None:
        """Run one batch and wait for its outputs."""
        ...

    def memory(self) -> int | None:
        """Return the peak memory in bytes of a device that has its own memory; None for CPUs."""
        ...


def time_runs(run: Callable[[], None], ns: int, clock: Callable[[], int] = time.perf_counter_ns) -> list[int]:
    """Run repeatedly until `ns` nanoseconds have passed, but at least once; return the duration of each run in
    nanoseconds."""
    times: list[int] = []
    before = begin = clock()
    while True:
        run()
        now = clock()
        times.append(now - before)
        if now - begin >= ns:
            return times
        before = clock()


def main() -> None:
    """Answer requests line by line on standard output; anything that libraries print is redirected to standard
    error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(content: Any) -> None:
        """Write an answer as one line of JSON."""
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        _serve(answer)
    except ArchError as error:
        diagnostic = error.diagnostics[0]
        answer({"code": diagnostic.code, "message": diagnostic.message, "hint": diagnostic.hint})
    except Exception as error:  # whatever compilers, drivers and runtimes raise
        text = str(error).strip() or "no message"
        answer({"code": "A1508", "message": f"{type(error).__name__}: {text.splitlines()[0][:300]}", "hint": None})


def _serve(answer: Callable[[Any], None]) -> None:
    """Load the network, warm it up, and measure one round per line of standard input."""
    requests = parent.parent_lines()
    request = json.loads(next(requests))
    network = request["network"]
    backend = backends.get(request["backend"])
    before = resident()
    runs: Runner = backend.runs(
        from_json(network["graph"]) if "graph" in network else Path(network["path"]), **request["options"]
    )
    (first,) = time_runs(runs.run, 0)
    for _ in range(WARMUP_RUNS):
        runs.run()
    gc.collect()
    gc.disable()  # runs create no reference cycles
    answer({"first": first, "machine": runs.machine})
    reset_peak()
    for line in requests:
        times = time_runs(runs.run, int(line))
        highest, device_memory = peak(), runs.memory()
        used = None if highest is None or before is None else max(0, highest - before)
        answer({"times": times, "memory": device_memory if request["options"]["device"] != "cpu" else used})


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> int | None:
    """Return the resident memory of this process in bytes; None if unknown."""
    return _status_field("VmRSS")


def peak() -> int | None:
    """Return the peak resident memory in bytes since the last `reset_peak`; None if unknown.

    `getrusage` is unsuitable, because its peak is inherited from the parent process.
    """
    return _status_field("VmHWM")


def reset_peak() -> None:
    """Reset the peak to the current memory, if the system allows that."""
    with suppress(OSError):
        _RESET.write_text("5")


def _status_field(name: str) -> int | None:
    """Return a field of /proc/self/status in bytes; None if it is not available."""
    try:
        match = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


if __name__ == "__main__":
    main()
