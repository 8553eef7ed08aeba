"""Commands that a child process reads from its parent over standard input; the child exits when the parent dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread


def parent_lines() -> Iterator[str]:
    """Yield the lines of standard input, and exit this process immediately when standard input ends.

    Standard input ends when the parent process closes its end of the pipe or dies.
    """
    queue: SimpleQueue[str] = SimpleQueue()
    Thread(target=_follow, args=(queue,), daemon=True).start()
    while True:
        yield queue.get()


def _follow(queue: SimpleQueue[str]) -> None:
    with os.fdopen(os.dup(0), encoding="utf-8") as source:
        for line in source:
            queue.put(line)
        os._exit(1)
