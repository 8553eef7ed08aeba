"""The folder of a study: which searches are done, in an SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from archir.diagnostics.errors import fail
from archir.runs.lock import Lock
from archir.studies.cells import Trials

FILE, STUDY = "study.sqlite", "study.toml"
_TABLE = "CREATE TABLE IF NOT EXISTS done (key TEXT PRIMARY KEY, seconds REAL NOT NULL, trials TEXT NOT NULL)"


class Store:
    """Searches that are done, by key."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __contains__(self, key: str) -> bool:
        return self._connection.execute("SELECT 1 FROM done WHERE key = ?", (key,)).fetchone() is not None

    def put(self, key: str, seconds: float, trials: Trials) -> None:
        """Keep a search; it survives whatever kills this process from now on."""
        text = json.dumps([trials.rows, trials.budgets], separators=(",", ":"))
        self._connection.execute("INSERT OR REPLACE INTO done VALUES (?, ?, ?)", (key, seconds, text))

    def get(self, key: str) -> tuple[float, Trials]:
        """The seconds that a search took, and what it tried."""
        seconds, text = self._connection.execute("SELECT seconds, trials FROM done WHERE key = ?", (key,)).fetchone()
        rows, budgets = json.loads(text)
        return seconds, Trials(tuple(rows), tuple(budgets))


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    """The store of a folder, which is made where there is none, for one writer at a time.

    Raises ArchError: A2262 (the folder holds something else, or the file is damaged), A1807 (somebody else writes).
    """
    path = folder / FILE
    if folder.is_dir() and not path.exists() and any(one.name != ".lock" for one in folder.iterdir()):
        raise fail("A2262", f"{folder} is there, and is no study", None, "name a new folder: -o runs/study")
    lock = Lock(folder)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
            yield Store(connection)
    except (sqlite3.DatabaseError, ValueError, TypeError) as error:
        hint = "name a new folder: all searches are done again"
        raise fail("A2262", f"{path} was damaged: {error}", None, hint) from None
    finally:
        lock.release()
