"""What a process is told by the one that started it, over standard input, as long as both live."""

from __future__ import annotations

import os
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread


def lines() -> Iterator[str]:
    """The lines of standard input. When it ends, so does this process, whatever it is at.

    It ends when the process that holds its other end closes it, or is gone, however that was ended.
    """
    found: SimpleQueue[str] = SimpleQueue()
    Thread(target=_follow, args=(found,), daemon=True).start()
    while True:
        yield found.get()


def _follow(found: SimpleQueue[str]) -> None:
    with os.fdopen(os.dup(0), encoding="utf-8") as source:
        for line in source:
            found.put(line)
        os._exit(1)
