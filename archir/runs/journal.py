"""The journal of a run: phases, epochs and trials, in an SQLite file that is only ever added to.

Each row holds the SHA-256 of the row before it and itself, so that a row that was changed, moved or lost is noticed as
long as a later one, or the manifest, is known. Of rows of one phase, kind and key, the last one counts, unless the
phase began anew after it; the views `phases`, `epochs` and `trials` show those. Readers may look on while it is written
(WAL).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from archir.diagnostics.errors import ArchError, fail
from archir.runs.folder import JOURNAL
from archir.runs.manifest import Anchor

GO_ON = "go on with `archir search --resume RUN --fall-back`"
CURE = f"put back a copy, or {GO_ON}: the figures of epochs and trials until now are lost"
"""What is said to whoever has a damaged journal."""

SYNCHRONOUS = "FULL"
"""A row is on the disk when it was put: after a power cut, too, the manifest knows no row that is lost."""

Kind = Literal["phase", "epoch", "trial", "anew"]
_GIVEN_UP: tuple[Kind, ...] = ("phase", "epoch", "trial")
"""What no longer counts of a phase that begins anew."""

_LATEST = (
    "SELECT *, max(seq) FROM log LEFT JOIN (SELECT phase AS again, max(seq) AS since FROM log WHERE kind = 'anew' "
    "GROUP BY phase) ON again = phase WHERE kind = '{}' AND seq > ifnull(since, 0) GROUP BY phase, key"
)
_SCHEMA = [
    "CREATE TABLE log (seq INTEGER PRIMARY KEY, phase TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, "
    "content TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE VIEW phases AS SELECT phase, content ->> 'status' AS status, content -> 'facts' AS facts "
    f"FROM ({_LATEST.format('phase')})",
    "CREATE VIEW epochs AS SELECT phase, CAST(key AS INTEGER) AS epoch, content ->> 'loss' AS loss, "
    "content ->> 'validation_accuracy' AS validation_accuracy, content ->> 'accuracy' AS accuracy, content AS row "
    f"FROM ({_LATEST.format('epoch')})",
    "CREATE VIEW trials AS SELECT phase, CAST(key AS INTEGER) AS id, content ->> 'hash' AS hash, "
    "content -> 'architecture' AS architecture, content ->> 'status' AS status, content -> 'scores' AS scores, "
    "content ->> 'seconds' AS seconds, content ->> 'error' AS error, content ->> 'worker' AS worker "
    f"FROM ({_LATEST.format('trial')})",
]


@dataclass(frozen=True)
class Trial:
    """An architecture that was, is or could not be tried; `hash` is its canonical hash, `id` counts from 0 in a phase.

    Scores that are no numbers are None.
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
    """The part of the full budget that it was tried with."""


class Journal:
    """The rows that count, in memory; with a connection, new ones are written."""

    def __init__(self, connection: sqlite3.Connection | None = None, path: Path = Path(JOURNAL)) -> None:
        self.anchor = Anchor()
        self._connection, self._path = connection, path
        self._rows: dict[tuple[str, Kind], dict[str, Any]] = {}
        self._before: dict[str, list[Trial]] = {}

    def put(self, phase: str, kind: Kind, key: str, content: Mapping[str, Any]) -> None:
        """Add a row, unless the one that counts is the same; it is on the disk when this returns."""
        assert self._connection is not None, "the run was opened to be read"
        plain = numbers(content)
        if self.rows(phase, kind).get(key) == plain:
            return
        text = json.dumps(plain, allow_nan=False, separators=(",", ":"))
        head = chained(self.anchor.head, phase, kind, key, text)
        values = (self.anchor.rows + 1, phase, kind, key, text, head)
        with self._written():
            self._connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", values)
        self._take(phase, kind, key, plain, head)

    def rows(self, phase: str, kind: Kind) -> Mapping[str, Any]:
        """The rows that count, by key, in the order in which the keys came."""
        return self._rows.get((phase, kind), {})

    def phases(self) -> list[str]:
        """Names of phases, in the order in which they began."""
        return list(dict.fromkeys(phase for phase, _ in self._rows))

    def trials(self, phase: str) -> list[Trial]:
        """A phase's trials, by id."""
        return sorted((Trial(**row) for row in self.rows(phase, "trial").values()), key=lambda trial: trial.id)

    def trials_before(self, phase: str) -> list[Trial]:
        """What a phase had tried each time before it began anew, in the order in which it was given up."""
        return self._before.get(phase, [])

    def put_trial(self, phase: str, trial: Trial) -> None:
        """Add a trial, or replace the one with its id."""
        self.put(phase, "trial", str(trial.id), asdict(trial))

    def seal(self) -> bool:
        """End writing; whether everything is in one file now, which it is not while somebody reads."""
        if self._connection is None:
            return False
        with self._written():
            self._connection.execute("PRAGMA busy_timeout = 1000")
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.close()
        return not busy

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Raises ArchError: A0809 (the system refuses to write), A1806 (the file is damaged)."""
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
                raise fail("A1806", f"{self._path} was damaged: {error}", None, CURE) from None
            raise _refused(error, self._path) from None

    def close(self) -> None:
        """Leave the file as it is."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, phase: str, kind: Kind, key: str, content: Any, head: str) -> None:
        if kind == "anew":
            self._before.setdefault(phase, []).extend(self.trials(phase))
            for one in _GIVEN_UP:
                self._rows.get((phase, one), {}).clear()
        self._rows.setdefault((phase, kind), {})[key] = content
        self.anchor = Anchor(rows=self.anchor.rows + 1, head=head)

    def _load(self, connection: sqlite3.Connection, anchor: Anchor) -> None:
        schema = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid")]
        if schema != _SCHEMA:
            raise ValueError("its tables are not those of a run")
        head = ""
        rows = connection.execute("SELECT seq, phase, kind, key, content, hash FROM log ORDER BY seq")
        for number, (seq, phase, kind, key, text, stored) in enumerate(rows, 1):
            head = chained(head, phase, kind, key, text)
            if seq != number or stored != head:
                raise ValueError(f"row {number} was changed, or one before it is missing")
            if number == anchor.rows and head != anchor.head:
                raise ValueError(f"row {number} is not the one that the manifest knows")
            self._take(phase, kind, key, json.loads(text), head)
        if self.anchor.rows < anchor.rows:
            raise ValueError(f"{self.anchor.rows} of {anchor.rows} rows are left")


def chained(head: str, phase: str, kind: str, key: str, content: str) -> str:
    """The hash of a row: of everything in it and of the row before."""
    return sha256(json.dumps([head, phase, kind, key, content]).encode()).hexdigest()


def numbers(value: Any) -> Any:
    """A value as JSON gives it back; numbers that JSON does not have become None."""
    if isinstance(value, Mapping):
        return {str(name): numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [numbers(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def empty() -> bytes:
    """The file of a journal without rows.

    It is made elsewhere: while SQLite turns a file to WAL, a kill leaves what nobody could read without writing.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / JOURNAL
        with _damage(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in ["PRAGMA synchronous = OFF", "PRAGMA journal_mode = WAL", *_SCHEMA]:
                connection.execute(statement)
        return path.read_bytes()


_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_FULL = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMSIZE,
}  # fmt: skip
"""What SQLite says of the system, and not of the file."""


def _refused(error: sqlite3.Error, path: Path) -> ArchError:
    """What the system refused, which is no damage."""
    full = getattr(error, "sqlite_errorcode", 0) in _FULL
    reason = f"{error}: is the disk full?" if full else str(error)
    hint = "what was recorded before is kept: go on with --resume when this is mended"
    return fail("A0809", f"cannot write {path}: {reason}", None, hint)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) in _FULL:
            raise _refused(error, path) from None
        raise fail("A1806", f"{path} was damaged: {error}", None, CURE) from None


def read(folder: Path, anchor: Anchor, sealed: bool) -> Journal:
    """The journal of a run. Raises ArchError (A1806) if it lacks rows that the manifest knows, or was changed."""
    path, journal = folder / JOURNAL, Journal()
    if not path.exists() and not anchor.rows:
        return journal
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if sealed else ''}"
    with _damage(path), closing(sqlite3.connect(uri, uri=True)) as connection:
        journal._load(connection, anchor)
    return journal


def write(folder: Path, anchor: Anchor) -> Journal:
    """The journal of a run, to be written. Raises ArchError (A1806) as `read` does."""
    path = folder / JOURNAL
    with _damage(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            journal = Journal(connection, path)
            journal._load(connection, anchor)
        except BaseException:
            connection.close()
            raise
    return journal
