"""Tables with one sample per row, some of whose columns are targets, such as `csv:houses.csv#price`.

A numeric column is one input feature. A column of strings is one-hot encoded as an input, and a class label
as a target. Several numeric targets form a vector per sample: `#length,width`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Inputs
from archir.data.readers.source import Part, Source, classes_of, read_error, source, split_files, split_targets
from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest
from archir.utils.files import read_bytes

MAX_BYTES = 1 << 30
"""Maximum size in bytes of a table file (1 GiB)."""
MAX_WORDS = 1000
"""Maximum number of distinct strings in an input column; each becomes a feature."""

Columns = Mapping[str, Sequence[Any]]


@source("csv")
def read(name: str, inputs: Inputs) -> Source:
    """Read `FILE#TARGET,TARGET`, or a folder with train*.csv and test*.csv. Raises ArchError (A1101, A1102)."""
    path, targets = split_targets(name)
    files = [path] if path.is_file() else sorted(path.glob("*.csv"))
    if not files:
        raise fail("A1101", f"there is no table {path}")
    return source_of_table(read_parts(files, read_columns), targets, str(path))


def read_parts(files: Sequence[Path], read_columns: Callable[[Path], Columns]) -> list[Columns]:
    """Read the tables of the training part and the held-out part, and join those of each part.

    Raises ArchError (A1102) if the tables of a part have different columns.
    """
    parts: list[Columns] = []
    for part_files in split_files(files):
        tables = [read_columns(file) for file in part_files]
        for file, table in zip(part_files, tables, strict=True):
            if table.keys() != tables[0].keys():
                raise fail("A1102", f"the columns of {file} are not those of {part_files[0]}")
        parts.append({name: [cell for table in tables for cell in table[name]] for name in tables[0]})
    return parts


def source_of_table(parts: Sequence[Columns], targets: Sequence[str], source_name: str) -> Source:
    """Build a source from tables of columns; the second table, if any, is held out. `source_name` names it in
    messages.

    Raises ArchError (A1102).
    """
    names = list(parts[0])
    for part in parts[1:]:
        if list(part) != names:
            text = f"{source_name} has other columns to test on: {join_names(list(part))}, not {join_names(names)}"
            raise fail("A1102", text)
    for target in targets:
        if target not in names:
            hint = suggest(target, names) or f"columns are {join_names(names)}"
            raise fail("A1102", f"{source_name} has no column `{target}`", None, hint)
    if not targets or len(set(targets)) == len(names):
        example = f"name a target after the path: {source_name}#{names[-1]}" if names else None
        text = f"{source_name} needs targets and inputs among its columns {join_names(names)}"
        raise fail("A1102", text, None, example)
    columns = {name: _Column(name, parts, source_name) for name in names}
    classes = columns[targets[0]].words
    if len(targets) > 1 and any(columns[target].words is not None for target in targets):
        raise fail("A1102", f"{source_name}: of several targets, all are numbers")
    table_parts = []
    for part in parts:
        x = np.concatenate([columns[name].features(part[name]) for name in names if name not in targets], 1)
        y = [columns[name].target(part[name]) for name in targets]
        table_parts.append(Part({"table": x}, {targets[0]: y[0]} if len(y) == 1 else {"target": np.stack(y, 1)}))
    return Source.of(table_parts, tuple(classes or ()) or classes_of(*table_parts))


def read_columns(path: Path) -> dict[str, list[str]]:
    """Return the cells of a CSV file, by column name; the delimiter may be a comma, semicolon or tab.

    Raises ArchError (A1101, A1102).
    """
    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise read_error(path, error) from None
    header_line = text.partition("\n")[0]
    delimiter = max(",;\t", key=header_line.count)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise read_error(path, error) from None
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise fail("A1102", f"{path} has no rows", None, "the first line names the columns")
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        raise fail("A1102", f"two columns of {path} have one name: {join_names(names)}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise fail("A1102", f"{path}, row {number} has {len(row)} cells, not {len(names)}")
    return {name: [row[i].strip() for row in rows[1:]] for i, name in enumerate(names)}


class _Column:
    """Column of a table, over all its parts: `words` are its sorted distinct strings, or None if it is numeric."""

    def __init__(self, name: str, parts: Sequence[Columns], source_name: str) -> None:
        self.display_name, self.source_name = name, source_name
        cells = [cell for part in parts for cell in part[name]]
        for number, cell in enumerate(cells):
            if cell is None or cell == "":
                text = f"{source_name}: `{name}` is empty in row {number + 2}"
                raise fail("A1102", text, None, "leave the row out, or fill it")
        self.words = None if all(map(_is_number, cells)) else sorted({str(cell) for cell in cells})
        self.is_integer = all(map(_is_integer, cells))

    def _word_numbers(self, cells: Sequence[Any]) -> NDArray[np.int64]:
        return np.searchsorted(self.words or [], [str(cell) for cell in cells]).astype(np.int64)

    def features(self, cells: Sequence[Any]) -> NDArray[np.float32]:
        """Return cells as float32 input features: [n, 1] if numeric, one-hot [n, distinct strings] otherwise."""
        if self.words is None:
            return np.array([float(cell) for cell in cells], np.float32)[:, None]
        if len(self.words) > MAX_WORDS:
            text = f"{self.source_name}: `{self.display_name}` has {len(self.words)} different words"
            raise fail("A1102", text, None, "leave the column out")
        return np.eye(len(self.words), dtype=np.float32)[self._word_numbers(cells)]

    def target(self, cells: Sequence[Any]) -> NDArray[Any]:
        """Return cells as target [n]: class numbers (int64) for strings, else int64 or float32.

        Raises ArchError (A1102) for NaN and infinity.
        """
        if self.words is not None:
            return self._word_numbers(cells)
        numbers = np.array([float(cell) for cell in cells])
        if not np.isfinite(numbers).all():
            row = int((~np.isfinite(numbers)).argmax())
            raise fail("A1102", f"{self.source_name}: `{self.display_name}` is not a finite number in row {row + 2}")
        return numbers.astype(np.int64 if self.is_integer else np.float32)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _is_integer(cell: Any) -> bool:
    try:
        return not isinstance(cell, float) and abs(int(cell)) < 2**53
    except (TypeError, ValueError):
        return False
