"""`archir` and `python -m archir`: the command line as a process of its own."""

from __future__ import annotations

import atexit
import gc
import sys

from archir.cli import main

SHORT = {"check", "fmt", "show", "count", "sample", "diff", "cost", "explain"}
"""Commands that keep all they make until they are done."""


def run() -> None:
    """Run the command line. A short command never looks for cyclic garbage, which would take a third of its time."""
    if sys.argv[1:2] and sys.argv[1] in SHORT:
        gc.disable()
        atexit.register(gc.freeze)
    main()


if __name__ == "__main__":
    run()
