"""Commands that a child process receives from its parent over standard input, as long as both live."""

from __future__ import annotations

import os
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread


def parent_lines() -> Iterator[str]:
    """Yield the lines of standard input; exit this process at once, whatever it does, when standard input ends.

    It ends when the parent closes its end of the pipe or dies, for whatever reason.
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
