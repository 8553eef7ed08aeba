"""Run a study: perform the searches that are not stored yet, compare all of them, and write the results."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, Interrupted, fail
from archir.runs.lock import Lock
from archir.search.executors.factory import executor
from archir.search.executors.tasks import Done, Failed
from archir.studies.checklist import practices
from archir.studies.comparison import StudyComparison, compare_searches, result_rows
from archir.studies.page import study_report
from archir.studies.searches import SearchId, SearchWorkload, Trials, all_searches, decode_trials, search_hashes
from archir.studies.study import Study, load_tasks
from archir.studies.trial_export import export
from archir.utils.files import write_atomic
from archir.utils.toml import Document

STORE_FILE, STUDY_FILE = "study.sqlite", "study.toml"
_TABLE = "CREATE TABLE IF NOT EXISTS done (key TEXT PRIMARY KEY, seconds REAL NOT NULL, trials TEXT NOT NULL)"


_DAMAGE_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""SQLite error codes that mean that the file is damaged or has other tables."""


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    """Context manager that converts errors of SQLite and of decoding rows to ArchError: A2262 (the file is damaged) or
    A0809 (the system refused to read or write)."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code & 0xFF in _DAMAGE_CODES:
            hint = "name a new folder; all searches are then repeated"
            raise fail("A2262", f"{path} is damaged: {error}", None, hint) from None
        hint = "finished searches are kept: fix the cause, then repeat the command"
        raise fail("A0809", f"cannot write {path}: {error}", None, hint) from None


class Store:
    """SQLite store of finished searches, keyed by a hash of everything that a search depends on.

    Every method may raise ArchError: A2262 (the file is damaged), A0809 (it cannot be written, as the disk is full).
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        with _sqlite_errors(path):
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", _TABLE):
                connection.execute(statement)

    def __contains__(self, key: str) -> bool:
        with _sqlite_errors(self._path):
            return self._connection.execute("SELECT 1 FROM done WHERE key = ?", (key,)).fetchone() is not None

    def put(self, key: str, seconds: float, trials: Trials) -> None:
        """Store a search durably, so that it is kept if the process is killed afterwards."""
        text = json.dumps([trials.rows, trials.budgets], separators=(",", ":"), allow_nan=False)
        with _sqlite_errors(self._path):
            self._connection.execute("INSERT OR REPLACE INTO done VALUES (?, ?, ?)", (key, seconds, text))

    def get(self, key: str) -> tuple[float, Trials]:
        """Return the duration of a stored search in seconds, and its trials."""
        query = "SELECT seconds, trials FROM done WHERE key = ?"
        with _sqlite_errors(self._path):
            seconds, text = self._connection.execute(query, (key,)).fetchone()
            rows, budgets = json.loads(text)
            return seconds, Trials(tuple(rows), tuple(budgets))


@contextmanager
def open_store(folder: Path) -> Iterator[Store]:
    """Open the store in a folder, creating it if it does not exist. A lock admits one writer at a time.

    Raises ArchError: A2262 (the folder contains something else, or the file is damaged), A0809 (the file cannot be
    created), A1807 (another process is writing).
    """
    path = folder / STORE_FILE
    if folder.is_dir() and not path.exists() and any(file.name != ".lock" for file in folder.iterdir()):
        raise fail(
            "A2262", f"{folder} exists and is not the folder of a study", None, "name a new folder: -o runs/study"
        )
    lock = Lock(folder)
    try:
        with _sqlite_errors(path):
            connection = sqlite3.connect(path, isolation_level=None)
        with closing(connection):
            yield Store(connection, path)
    finally:
        lock.release()


Progress = Callable[[int, int], None]
"""Callback that receives the number of finished searches and the total number of searches."""


@dataclass(frozen=True)
class StudyOutcome:
    """Outcome of a study: the comparison, the searches that failed, and rows of tables that were left out."""

    comparison: StudyComparison
    failed: Mapping[SearchId, str]
    """Reason of the failure, for each failed search."""
    outside: Mapping[str, str]
    """For each task whose table has rows that are not architectures of the space: how many."""


def run_study(
    study: Study,
    document: Document,
    path: Path,
    folder: Path,
    progress: Progress = lambda done, total: None,
    executor_name: str | None = None,
    trials_file: Path | None = None,
) -> StudyOutcome:
    """Run a study in a folder, or resume it: searches that are already stored in the folder are not repeated.

    `path` is the path of the study's file, `executor_name` overrides the study's executor, and `trials_file` is a file
    to which all trials are exported. Raises ArchError if the study, its tasks or the folder are invalid, or if no seed
    was completed by all strategies (A2264).
    """
    root = path.resolve().parent
    loaded_tasks = load_tasks(study, document, root)
    with document.with_span("executor"):
        workers = executor(executor_name or study.executor, cores=study.cores)
    failed: dict[SearchId, str] = {}
    trials_of: dict[SearchId, Trials] = {}
    seconds = 0.0
    with open_store(folder) as store:
        write_atomic(folder / STUDY_FILE, document.source.text.encode())
        hashes = search_hashes(study, loaded_tasks, root)
        remaining = [search_id for search_id in all_searches(study) if hashes[search_id] not in store]
        total = len(hashes)
        progress(total - len(remaining), total)
        by_key = {f"{search_id.task} {search_id.strategy} {search_id.seed}": search_id for search_id in remaining}
        tasks = [(key, (search_id.task, search_id.strategy, search_id.seed)) for key, search_id in by_key.items()]
        try:
            with workers:
                for outcome in workers.run(SearchWorkload(study, root), tasks) if tasks else ():
                    search_id = by_key[outcome.key]
                    if isinstance(outcome, Failed):
                        failed[search_id] = f"{outcome.reason}: {outcome.message}"
                    elif isinstance(outcome, Done):
                        store.put(hashes[search_id], outcome.seconds, decode_trials(outcome.scores))
                    remaining.remove(search_id)
                    progress(total - len(remaining), total)
        except KeyboardInterrupt:
            raise Interrupted("the study was stopped") from None
        for search_id in all_searches(study):
            if search_id not in failed:
                search_seconds, trials_of[search_id] = store.get(hashes[search_id])
                seconds += search_seconds
        if not trials_of:
            raise ArchError(Diagnostic("A2264", f"every search of the study failed: {next(iter(failed.values()))}"))
        comparison = compare_searches(study, loaded_tasks, trials_of)
        if any(not len(task.regrets[0]) for task in comparison.tasks):
            raise fail("A2264", f"no seed was completed by all strategies: {next(iter(failed.values()))}")
        tables = {task.name: sha256((root / task.table).read_bytes()).hexdigest() for task in study.task}
        _write_results(folder, comparison, tables, seconds, document.source.text)
        if trials_file is not None:
            export(trials_file, study, loaded_tasks, trials_of)
    outside = {loaded.task.name: loaded.table.outside for loaded in loaded_tasks if loaded.table.outside_count}
    return StudyOutcome(comparison, failed, outside)


def _write_results(
    folder: Path, comparison: StudyComparison, tables: Mapping[str, str], seconds: float, text: str
) -> None:
    rows, data = list(result_rows(comparison)), report_data(comparison, tables, seconds)
    write_results(folder, rows, data, study_report(comparison, tables, seconds, text))


def write_results(folder: Path, rows: Sequence[Mapping[str, Any]], data: Mapping[str, Any], html: str) -> None:
    """Write the result rows, all results as JSON, and the report of a study."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(folder / "results.csv", file.getvalue().encode())
    write_atomic(folder / "results.json", (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())
    write_atomic(folder / "report.html", html.encode())


def report_data(comparison: StudyComparison, tables: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Return the content of the report as plain data, which is written to results.json."""
    names = comparison.strategies
    budgets = [
        {
            "evaluations": item.budget,
            "mean_ranks": dict(zip(names, item.ranks, strict=True)),
            "p_after_holm": [
                {"one": names[a], "other": names[b], "p": value} for (a, b), value in item.p_values.items()
            ],
            "not_told_apart": [[names[i] for i in group] for group in item.groups],
            "better": {names[i]: dict(zip(names, row, strict=True)) for i, row in enumerate(item.win_probabilities)},
        }
        for item in comparison.budgets
    ]
    checklist = [vars(item) for item in practices(comparison, tables, seconds)]
    return {"results": list(result_rows(comparison)), "budgets": budgets, "checklist": checklist, "seconds": seconds}
