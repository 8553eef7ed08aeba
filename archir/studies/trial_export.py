"""Export of all trials of a study, one row per trial, as CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archir.data.readers.optional_packages import require_package
from archir.diagnostics.errors import fail
from archir.search.adaptors.from_picks import plain_label
from archir.studies.anytime import GroundTruth
from archir.studies.searches import NOT_IN_TABLE, SearchId, Trials
from archir.studies.study import LoadedTask, Study
from archir.utils.files import write_atomic

FORMATS = (".csv", ".parquet")
"""File suffixes of the supported export formats."""
_CHUNK_ROWS = 50_000
"""Number of CSV rows that are written at once."""


def export(path: Path, study: Study, tasks: Sequence[LoadedTask], trials_of: Mapping[SearchId, Trials]) -> int:
    """Write all trials to a file; return the number of rows.

    Raises ArchError: A2263 (unsupported file suffix), A1112 (pyarrow is not installed).
    """
    if path.suffix not in FORMATS:
        raise fail("A2263", f"trials can be written as .csv or .parquet, not as `{path.name}`")
    columns = ["task", "strategy", "seed", "trial", "part", *dict.fromkeys(_names(tasks))]
    rows = _rows(study, tasks, trials_of)
    if path.suffix == ".csv":
        return _write_csv(path, columns, rows)
    return _write_parquet(path, columns, rows)


def _names(tasks: Sequence[LoadedTask]) -> Iterator[str]:
    for task in tasks:
        yield from (objective.rpartition(":")[0] for objective in task.objectives)
    for task in tasks:
        yield from (choice.path for choice in task.space.choices)


def _rows(study: Study, tasks: Sequence[LoadedTask], trials_of: Mapping[SearchId, Trials]) -> Iterator[dict[str, Any]]:
    row_caches = [_RowCache(task) for task in tasks]
    for cell, trials in trials_of.items():
        names = {"task": study.task[cell.task].name, "strategy": study.strategy[cell.strategy].name, "seed": cell.seed}
        for number, (row, part) in enumerate(zip(trials.rows, trials.budgets, strict=True)):
            yield {**names, "trial": number, "part": part, **row_caches[cell.task].row(row)}


class _RowCache:
    """Cache of exported cells, by row index of a task's table."""

    def __init__(self, task: LoadedTask) -> None:
        self.task, self.codes, self.truth = task, list(task.table.rows), GroundTruth(task)
        self._rows: dict[int, dict[str, Any]] = {NOT_IN_TABLE: {}}

    def row(self, number: int) -> dict[str, Any]:
        """Return the objectives at full budget by name, and the labels of choices by path, for a row of the table.

        The result is empty for candidates that are not in the table.
        """
        if number not in self._rows:
            objectives = [aim.rpartition(":") for aim in self.task.objectives]
            values = self.truth.values[number].tolist()
            cells = {
                name: -item if sense == "max" else item
                for (name, _, sense), item in zip(objectives, values, strict=True)
            }
            pairs = zip(self.task.space.choices, self.codes[number], strict=True)
            self._rows[number] = {
                **cells,
                **{item.path: str(plain_label(item, code)) for item, code in pairs if code >= 0},
            }
        return self._rows[number]


def _write_csv(path: Path, columns: Sequence[str], rows: Iterator[dict[str, Any]]) -> int:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    count = 0

    def parts() -> Iterator[bytes]:
        nonlocal count
        for row in rows:
            writer.writerow(row)
            count += 1
            if count % _CHUNK_ROWS == 0:
                yield text.getvalue().encode()
                text.seek(0)
                text.truncate()
        yield text.getvalue().encode()

    write_atomic(path, parts())
    return count


def _write_parquet(path: Path, columns: Sequence[str], rows: Iterator[dict[str, Any]]) -> int:
    arrow, parquet = (
        require_package("pyarrow", "data", "Parquet"),
        require_package("pyarrow.parquet", "data", "Parquet"),
    )
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    for row in rows:
        for name, column in cells.items():
            column.append(row.get(name))
    sink = io.BytesIO()
    parquet.write_table(arrow.table(cells), sink)
    write_atomic(path, sink.getvalue())
    return len(cells["trial"])
