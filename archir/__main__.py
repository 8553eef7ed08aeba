"""Entry point of the `archir` command and of `python -m archir`."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from archir.cli import main

SHORT_COMMANDS = {"check", "fmt", "show", "count", "sample", "diff", "cost", "explain"}
"""Commands that run with the garbage collector off, since they need almost all objects until they exit."""

SPIN_COUNT = "1000"
"""Iterations for which an OpenMP thread busy-waits for other threads before it sleeps (`GOMP_SPINCOUNT`).

libgomp itself uses 1,000 if it knows of more threads than processors. Its default of 300,000 makes two threads ten
times as slow on a machine on which other processes compute, too.
"""


def run() -> None:
    """Run the command line. Short commands run without cyclic garbage collection, which would take a third of
    their time."""
    if sys.argv[1:2] and sys.argv[1] in SHORT_COMMANDS:
        gc.disable()
        atexit.register(gc.freeze)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # libgomp reads it when torch is imported
    main()


if __name__ == "__main__":
    run()
