"""All trials of a study as a file: a row for each, in CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archir.data.readers.extras import needed
from archir.diagnostics.errors import fail
from archir.search.adaptors.asking import written
from archir.studies.anytime import Truth
from archir.studies.cells import NONE, Cell, Trials
from archir.studies.study import Scene, Study
from archir.utils.files import write_atomic

FORMS = (".csv", ".parquet")
_PORTION = 50_000


def export(path: Path, study: Study, scenes: Sequence[Scene], tried: Mapping[Cell, Trials]) -> int:
    """Write a file; how many rows it has. Raises ArchError: A2263 (another form), A1112 (pyarrow is missing)."""
    if path.suffix not in FORMS:
        raise fail("A2263", f"trials are written as .csv or .parquet, not `{path.name}`")
    columns = ["task", "strategy", "seed", "trial", "part", *dict.fromkeys(_names(scenes))]
    rows = _rows(study, scenes, tried)
    if path.suffix == ".csv":
        return _csv(path, columns, rows)
    return _parquet(path, columns, rows)


def _names(scenes: Sequence[Scene]) -> Iterator[str]:
    for one in scenes:
        yield from (aim.rpartition(":")[0] for aim in one.objectives)
    for one in scenes:
        yield from (choice.path for choice in one.space.choices)


def _rows(study: Study, scenes: Sequence[Scene], tried: Mapping[Cell, Trials]) -> Iterator[dict[str, Any]]:
    known = [_Known(one) for one in scenes]
    for cell, trials in tried.items():
        names = {"task": study.task[cell.task].name, "strategy": study.strategy[cell.strategy].name, "seed": cell.seed}
        for number, (row, part) in enumerate(zip(trials.rows, trials.budgets, strict=True)):
            yield {**names, "trial": number, "part": part, **known[cell.task].row(row)}


class _Known:
    """What is written of each row of a table, worked out once."""

    def __init__(self, of: Scene) -> None:
        self.of, self.codes, self.truth = of, list(of.table.rows), Truth(of)
        self._rows: dict[int, dict[str, Any]] = {NONE: {}}

    def row(self, number: int) -> dict[str, Any]:
        """Objectives, as with the full budget, and choices by path; nothing of what the table does not have."""
        if number not in self._rows:
            aims = [aim.rpartition(":") for aim in self.of.objectives]
            values = self.truth.values[number].tolist()
            found = {name: -one if sense == "max" else one for (name, _, sense), one in zip(aims, values, strict=True)}
            pairs = zip(self.of.space.choices, self.codes[number], strict=True)
            self._rows[number] = {**found, **{one.path: str(written(one, code)) for one, code in pairs if code >= 0}}
        return self._rows[number]


def _csv(path: Path, columns: Sequence[str], rows: Iterator[dict[str, Any]]) -> int:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    count = 0

    def parts() -> Iterator[bytes]:
        nonlocal count
        for row in rows:
            writer.writerow(row)
            count += 1
            if count % _PORTION == 0:
                yield text.getvalue().encode()
                text.seek(0)
                text.truncate()
        yield text.getvalue().encode()

    write_atomic(path, parts())
    return count


def _parquet(path: Path, columns: Sequence[str], rows: Iterator[dict[str, Any]]) -> int:
    arrow, parquet = needed("pyarrow", "data", "Parquet"), needed("pyarrow.parquet", "data", "Parquet")
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    for row in rows:
        for name, column in cells.items():
            column.append(row.get(name))
    sink = io.BytesIO()
    parquet.write_table(arrow.table(cells), sink)
    write_atomic(path, sink.getvalue())
    return len(cells["trial"])
