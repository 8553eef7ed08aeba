"""Journal of a run: phases, epochs and trials, in an append-only SQLite file.

Rows are numbered, and each has the SHA-256 of its columns. The manifest has the number of rows that the journal must
at least contain. A changed, moved or missing row is therefore detected. Of the rows with equal phase, kind and key, the
last is current, unless the phase was restarted after it. The views `phases`, `epochs` and `trials` show the current
rows. The file can be read while it is being written (WAL mode).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from archir.diagnostics.errors import fail
from archir.runs.folder import JOURNAL

RESUME_HINT = "go on with `archir search --resume RUN --fall-back`"
"""Hint to resume a run without its damaged file."""
DAMAGE_HINT = f"put back a copy, or {RESUME_HINT}: the figures of all epochs and trials so far are lost"
"""Hint for a damaged journal."""

SYNCHRONOUS = "FULL"
"""SQLite's `synchronous` mode. With FULL, a row is on disk when `put` returns, so that the journal has all rows
that the manifest counts, even after a power failure."""

Kind = Literal["phase", "epoch", "extra", "trial", "anew"]
"""Kind of a row; `extra` has further numbers of an epoch, `anew` records the restart of a phase."""
_RESTARTED_KINDS: tuple[Kind, ...] = ("phase", "epoch", "extra", "trial")
"""Kinds of rows that become obsolete when their phase is restarted."""

_CURRENT_ROWS = (
    "SELECT *, max(seq) FROM log LEFT JOIN (SELECT phase AS again, max(seq) AS since FROM log WHERE kind = 'anew' "
    "GROUP BY phase) ON again = phase WHERE kind = '{}' AND seq > ifnull(since, 0) GROUP BY phase, key"
)
"""SQL query for the current rows of one kind, which is to be filled in."""
_SCHEMA = [
    "CREATE TABLE log (seq INTEGER PRIMARY KEY, phase TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, "
    "content TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE VIEW phases AS SELECT phase, content ->> 'status' AS status, content -> 'facts' AS facts "
    f"FROM ({_CURRENT_ROWS.format('phase')})",
    "CREATE VIEW epochs AS SELECT phase, CAST(key AS INTEGER) AS epoch, content ->> 'loss' AS loss, "
    "content ->> 'validation_accuracy' AS validation_accuracy, content ->> 'accuracy' AS accuracy, content AS row "
    f"FROM ({_CURRENT_ROWS.format('epoch')})",
    "CREATE VIEW trials AS SELECT phase, CAST(key AS INTEGER) AS id, content ->> 'hash' AS hash, "
    "content -> 'architecture' AS architecture, content ->> 'status' AS status, content -> 'scores' AS scores, "
    "content ->> 'seconds' AS seconds, content ->> 'error' AS error, content ->> 'worker' AS worker "
    f"FROM ({_CURRENT_ROWS.format('trial')})",
]
"""SQL statements that create the table and views; a journal with any other schema counts as damaged."""


@dataclass(frozen=True)
class Trial:
    """Evaluation of an architecture. Its status is running, done or failed.

    `hash` is the canonical hash of the architecture; `id` counts trials from 0 in each phase. Infinite and NaN scores
    are stored as None.
    """

    id: int
    hash: str
    architecture: Mapping[str, Any]
    status: Literal["running", "done", "failed"]
    scores: Mapping[str, float | None] = field(default_factory=dict)
    seconds: float | None = None
    error: str | None = None
    worker: str | None = None
    budget: float = 1.0
    """Fraction of the full training budget with which the trial was scored."""


class Journal:
    """The current rows of a journal, in memory. If it has a connection, new rows are appended to the file as well."""

    def __init__(self, connection: sqlite3.Connection | None = None, path: Path = Path(JOURNAL)) -> None:
        self.count = 0
        """Number of rows in the file, current or not."""
        self._connection, self._path = connection, path
        self._rows: dict[tuple[str, Kind], dict[str, Any]] = {}
        self.superseded: dict[str, list[dict[str, Any]]] = {}
        """Rows of trials from before a phase was restarted, by phase; oldest first."""

    def put(self, phase: str, kind: Kind, key: str, content: Mapping[str, Any]) -> None:
        """Append a row, unless it equals the current row with the same key; the row is on disk when `put` returns."""
        assert self._connection is not None, "the run was opened for reading only"
        plain = plain_json(content)
        if self.rows(phase, kind).get(key) == plain:
            return
        text = json.dumps(plain, allow_nan=False, separators=(",", ":"))
        columns = self.count + 1, phase, kind, key, text
        with _sqlite_errors(self._path, writing=True):
            self._connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", (*columns, row_hash(*columns)))
        self._apply(phase, kind, key, plain)

    def rows(self, phase: str, kind: Kind) -> Mapping[str, Any]:
        """Return the current rows of a phase and kind by key, in the order in which the keys first appeared."""
        return self._rows.get((phase, kind), {})

    def phases(self) -> list[str]:
        """Return the names of the phases in the order in which they started."""
        return list(dict.fromkeys(phase for phase, _ in self._rows))

    def seal(self) -> bool:
        """Close the journal; return True if everything is now in a single file, False if a concurrent reader prevented
        that."""
        if self._connection is None:
            return False
        with _sqlite_errors(self._path, writing=True):
            self._connection.execute("PRAGMA busy_timeout = 1000")
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.close()
        return not busy

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _apply(self, phase: str, kind: Kind, key: str, content: Any) -> None:
        if kind == "anew":
            trials = sorted(self.rows(phase, "trial").values(), key=lambda row: int(row["id"]))
            self.superseded.setdefault(phase, []).extend(trials)
            for obsolete in _RESTARTED_KINDS:
                self._rows.get((phase, obsolete), {}).clear()
        self._rows.setdefault((phase, kind), {})[key] = content
        self.count += 1

    def _load(self, connection: sqlite3.Connection, count: int) -> None:
        """Read and verify all rows. Raises ValueError if rows were changed, or there are fewer than `count`."""
        schema = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid")]
        if schema != _SCHEMA:
            raise ValueError("its tables are not those of a run")
        rows = connection.execute("SELECT seq, phase, kind, key, content, hash FROM log ORDER BY seq")
        for number, (*columns, stored) in enumerate(rows, 1):
            seq, phase, kind, key, text = columns
            if seq != number or stored != row_hash(*columns):
                raise ValueError(f"row {number} was changed, or one before it is missing")
            self._apply(phase, kind, key, json.loads(text))
        if self.count < count:
            raise ValueError(f"{self.count} of {count} rows are left")


def row_hash(seq: int, phase: str, kind: str, key: str, content: str) -> str:
    """Return the hash of a row: SHA-256 of its columns."""
    return sha256(json.dumps([seq, phase, kind, key, content]).encode()).hexdigest()


def plain_json(value: Any) -> Any:
    """Return a value as it would be after a JSON round trip; infinities and NaN become None."""
    if isinstance(value, Mapping):
        return {str(name): plain_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def empty() -> bytes:
    """Return the content of a journal file without rows.

    It is created in a temporary folder: if the process were killed while SQLite switches a file to WAL mode, the
    file could no longer be opened read-only.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / JOURNAL
        with _sqlite_errors(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in ["PRAGMA synchronous = OFF", "PRAGMA journal_mode = WAL", *_SCHEMA]:
                connection.execute(statement)
        return path.read_bytes()


_DAMAGE_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""SQLite error codes that mean that the file is damaged."""
_SYSTEM_CODES = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMSIZE,
}  # fmt: skip
"""SQLite error codes caused by the system, such as a full disk, and not by a damaged file."""


@contextmanager
def _sqlite_errors(path: Path, writing: bool = False) -> Iterator[None]:
    """Context manager that converts errors of SQLite to ArchError: A0809 (the system refused to write) or A1806 (the
    file is damaged)."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code & 0xFF in _DAMAGE_CODES or not (writing or code in _SYSTEM_CODES):
            raise fail("A1806", f"{path} was damaged: {error}", None, DAMAGE_HINT) from None
        reason = f"{error}: is the disk full?" if code in _SYSTEM_CODES else str(error)
        hint = "everything recorded so far is kept: fix the cause, then go on with --resume"
        raise fail("A0809", f"cannot write {path}: {reason}", None, hint) from None


def read(folder: Path, count: int, sealed: bool) -> Journal:
    """Read the journal of a run, which has at least `count` rows.

    `sealed` means that the journal was closed and consists of a single file. Raises ArchError (A1806) if rows were
    changed or are missing.
    """
    path, journal = folder / JOURNAL, Journal()
    if not path.exists() and not count:
        return journal
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if sealed else ''}"
    with _sqlite_errors(path), closing(sqlite3.connect(uri, uri=True)) as connection:
        journal._load(connection, count)
    return journal


def write(folder: Path, count: int) -> Journal:
    """Open the journal of a run for writing. Raises ArchError (A1806) if it is damaged, as `read` does."""
    path = folder / JOURNAL
    with _sqlite_errors(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            journal = Journal(connection, path)
            journal._load(connection, count)
        except BaseException:
            connection.close()
            raise
    return journal
