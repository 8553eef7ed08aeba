"""The process of one subject, told what to do and asked for figures over its pipes.

It is started by `python -m archir.backends.speed.process`.

The first line names the subject: `{"backend", "options", "network": {"graph"} or {"path"}}`. Every further line is the
nanoseconds of a round; the answer is the time of each run. It ends with its standard input, in the midst of a round.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import archir.ops  # noqa: F401  (declares the operations)
from archir import backends
from archir.backends.speed import memory
from archir.diagnostics.errors import ArchError
from archir.ir.serial import from_json
from archir.utils import parent

LEAST_WARM = 2
"""Runs that are not counted, besides those of the first round."""


class Runs(Protocol):
    """A network that a backend made ready, with inputs."""

    @property
    def machine(self) -> dict[str, str]:
        """Versions of what runs it, and its GPU."""
        ...

    def run(self) -> None:
        """One batch: done when this returns."""
        ...

    def memory(self) -> int | None:
        """Bytes at the peak of a device that has its own memory."""
        ...


def timed(run: Callable[[], None], ns: int, clock: Callable[[], int] = time.perf_counter_ns) -> list[int]:
    """The times of runs, one after the other, until they have lasted `ns` together; one at least."""
    found: list[int] = []
    before = begin = clock()
    while True:
        run()
        now = clock()
        found.append(now - before)
        if now - begin >= ns:
            return found
        before = clock()


def main() -> None:
    """Answer line by line; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(found: Any) -> None:
        answers.write(json.dumps(found) + "\n")
        answers.flush()

    try:
        _serve(answer)
    except ArchError as error:
        one = error.diagnostics[0]
        answer({"code": one.code, "message": one.message, "hint": one.hint})
    except Exception as error:  # whatever compilers, drivers and runtimes raise
        text = str(error).strip() or "it says no more"
        answer({"code": "A1508", "message": f"{type(error).__name__}: {text.splitlines()[0][:300]}", "hint": None})


def _serve(answer: Callable[[Any], None]) -> None:
    told = parent.lines()
    wanted = json.loads(next(told))
    network = wanted["network"]
    backend = backends.get(wanted["backend"])
    before = memory.resident()
    runs: Runs = backend.runs(
        from_json(network["graph"]) if "graph" in network else Path(network["path"]), **wanted["options"]
    )
    (first,) = timed(runs.run, 0)
    for _ in range(LEAST_WARM):
        runs.run()
    gc.collect()
    gc.disable()  # of what runs, nothing is in cycles
    answer({"first": first, "machine": runs.machine})
    memory.forget_peak()
    for line in told:
        found = timed(runs.run, int(line))
        most, own = memory.peak(), runs.memory()
        used = None if most is None or before is None else max(0, most - before)
        answer({"times": found, "memory": own if wanted["options"]["device"] != "cpu" else used})


if __name__ == "__main__":
    main()
