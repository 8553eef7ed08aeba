"""The studio's server in a thread, and its page in a browser."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from archir.tools.studio.server import HOST, Studio


@contextmanager
def served(file: Path | None = None) -> Iterator[Studio]:
    """Yield a running studio."""
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        studio = Studio(bound.getsockname()[1], file)
        settings = uvicorn.Config(studio.app(), log_level="error", lifespan="off", ws="none")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield studio
        finally:
            server.should_exit = True
            thread.join(timeout=20)
