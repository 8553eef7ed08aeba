"""Export of all trials of a study, one row per trial, as CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from archir.data.readers.source import require_package
from archir.diagnostics.errors import fail
from archir.search.adaptors import plain_label
from archir.studies.anytime import GroundTruth
from archir.studies.searches import NOT_IN_TABLE, SearchId, Trials
from archir.studies.study import LoadedTask, Study
from archir.utils.files import write_atomic

FORMATS = (".csv", ".parquet")
"""File suffixes of the supported export formats."""
_CHUNK_CHARACTERS = 1 << 22
"""Number of characters of CSV that are written at once."""


def export(path: Path, study: Study, tasks: Sequence[LoadedTask], trials_of: Mapping[SearchId, Trials]) -> None:
    """Write all trials to a file.

    Raises ArchError: A2263 (unsupported file suffix), A1112 (pyarrow is not installed).
    """
    if path.suffix not in FORMATS:
        raise fail("A2263", f"trials can be written as .csv or .parquet, not as `{path.name}`")
    objectives = (objective.rpartition(":")[0] for task in tasks for objective in task.objectives)
    choices = (choice.path for task in tasks for choice in task.space.choices)
    columns = ["task", "strategy", "seed", "trial", "part", *dict.fromkeys([*objectives, *choices])]
    rows = _rows(study, tasks, trials_of)
    write_atomic(path, _csv(columns, rows) if path.suffix == ".csv" else _parquet(columns, rows))


def _rows(study: Study, tasks: Sequence[LoadedTask], trials_of: Mapping[SearchId, Trials]) -> Iterator[dict[str, Any]]:
    truths, codes = [GroundTruth(task) for task in tasks], [[*task.table.rows] for task in tasks]

    @cache
    def cells(number: int, row: int) -> dict[str, Any]:
        """Return the finite objectives at full budget by name, and the labels of choices by path, for a row of a table;
        {} for a candidate that is not in the table."""
        if row == NOT_IN_TABLE:
            return {}
        task, result = tasks[number], dict[str, Any]()
        for objective, value in zip(task.objectives, truths[number].values[row].tolist(), strict=True):
            if isfinite(value):
                name, _, sense = objective.rpartition(":")
                result[name] = -value if sense == "max" else value
        for choice, code in zip(task.space.choices, codes[number][row], strict=True):
            if code >= 0:
                result[choice.path] = str(plain_label(choice, code))
        return result

    for search, trials in trials_of.items():
        strategy = study.strategy[search.strategy].name
        names = {"task": study.task[search.task].name, "strategy": strategy, "seed": search.seed}
        for number, (row, part) in enumerate(zip(trials.rows, trials.budgets, strict=True)):
            yield {**names, "trial": number, "part": part, **cells(search.task, row)}


def _csv(columns: Sequence[str], rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    for row in rows:
        writer.writerow(row)
        if text.tell() > _CHUNK_CHARACTERS:
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()


def _parquet(columns: Sequence[str], rows: Iterator[dict[str, Any]]) -> bytes:
    arrow = require_package("pyarrow", "data", "Parquet")
    parquet = require_package("pyarrow.parquet", "data", "Parquet")
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    for row in rows:
        for name, column in cells.items():
            column.append(row.get(name))
    sink = io.BytesIO()
    parquet.write_table(arrow.table(cells), sink)
    return sink.getvalue()
