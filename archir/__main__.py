"""`archir` and `python -m archir`: the command line as a process of its own."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from archir.cli import main

SHORT = {"check", "fmt", "show", "count", "sample", "diff", "cost", "explain"}
"""Commands that keep all they make until they are done."""

SPINS = "1000"
"""Turns of a loop in which a thread waits for others before it sleeps: as many as libgomp has where it knows of more
threads than processors. Its usual 300,000 make two threads take ten times as long where others compute, too."""


def run() -> None:
    """Run the command line. A short command never looks for cyclic garbage, which would take a third of its time."""
    if sys.argv[1:2] and sys.argv[1] in SHORT:
        gc.disable()
        atexit.register(gc.freeze)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when torch is imported
    main()


if __name__ == "__main__":
    run()
