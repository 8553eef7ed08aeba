"""Named columns of a results file: `.npz`, `.csv` or `.parquet`, read in the same way as data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from re import fullmatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.readers import csv, npz, parquet
from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest
from archir.utils.globs import matches

SUFFIXES = (".npz", ".csv", ".parquet")
"""File name suffixes that can be read."""


@dataclass(frozen=True)
class Columns:
    """Arrays by name, with one row per network; `name[i]` is column i of a two-dimensional array."""

    file: str
    arrays: Mapping[str, NDArray[Any]]

    def column(self, name: str) -> NDArray[Any]:
        """Return the column called `name`, shape [n]. Raises ArchError (A2251) if there is none."""
        array = self._find(name)
        if array is None or array.ndim != 1:
            text = f"{self.file} has no column `{name}`"
            hint = suggest(name, self.arrays) or f"there are {join_names(list(self.arrays))}"
            if array is not None:
                text, hint = f"`{name}` of {self.file} is an array of several columns", f"the first is `{name}[0]`"
            raise fail("A2251", text, None, hint)
        return array

    def number_columns(self, pattern: str) -> NDArray[np.float64]:
        """Return the columns that match a pattern as numbers [n, columns].

        Raises ArchError (A2251) if there are none, or if they are not numbers.
        """
        arrays = (
            [self._find(pattern)] if "*" not in pattern else [self._find(array) for array in self._matching(pattern)]
        )
        columns = [array.reshape(len(array), -1) for array in arrays if array is not None]
        if not columns:
            self.column(pattern)
        try:
            return np.concatenate(columns, 1).astype(np.float64)
        except ValueError:
            raise fail("A2251", f"`{pattern}` of {self.file} is not a column of numbers") from None

    def select_rows(self, name: str, cell: str | float) -> Columns:
        """Return only the rows that have this cell in a column. Raises ArchError (A2251) if there are none."""
        column = self.column(name)
        rows = np.array([value == cell or str(value).lower() == str(cell).lower() for value in column.tolist()], bool)
        if not rows.any():
            raise fail("A2251", f"no row of {self.file} has `{name} = {cell}`")
        return Columns(self.file, {key: array[rows] for key, array in self.arrays.items()})

    @property
    def row_count(self) -> int:
        """Number of rows. Raises ArchError (A2251) if the columns have different lengths or are empty."""
        lengths = {len(array) if array.ndim else 0 for array in self.arrays.values()}
        if len(lengths) != 1 or not min(lengths):
            counts = join_names(sorted(map(str, lengths)))
            raise fail("A2251", f"the columns of {self.file} need equally many rows, at least one, not {counts}")
        return lengths.pop()

    def _matching(self, pattern: str) -> Iterator[str]:
        return (name for name in self.arrays if matches(pattern, name))

    def _find(self, name: str) -> NDArray[Any] | None:
        """Return the array called `name`, or one column of it for `name[i]`; None if there is none."""
        if name in self.arrays:
            return self.arrays[name]
        match = fullmatch(r"(.*)\[(\d{1,9})\]", name)
        if match is None:
            return None
        array = self._find(match[1])
        if array is None or array.ndim < 2 or int(match[2]) >= array.shape[1]:
            return None
        column: NDArray[Any] = array[:, int(match[2])]
        return column


def read_columns(path: Path) -> Columns:
    """Read the columns of a file.

    Raises ArchError: A2251 (unknown suffix), A1101, A1102, A1112 (the file cannot be read).
    """
    match path.suffix:
        case ".npz":
            arrays = npz.read_arrays(path)
            rows = max((len(array) for array in arrays.values() if array.ndim), default=0)
            return Columns(
                path.name, {k: values for k, values in arrays.items() if values.ndim and len(values) == rows}
            )
        case ".csv":
            cells: Mapping[str, Any] = csv.read_columns(path)
        case ".parquet":
            cells = parquet.read_columns(path)
        case _:
            text = f"a table of results must end in {', '.join(SUFFIXES)}, not `{path.name}`"
            raise fail("A2251", text, None, "convert the file to one of these formats")
    return Columns(path.name, {name: _to_array(column) for name, column in cells.items()})


def _to_array(cells: Any) -> NDArray[Any]:
    """Return cells as an array: numbers if each is a number or empty, else texts.

    Cells that are lists become the rows of a two-dimensional array.
    """
    try:
        return np.array([np.nan if cell in ("", None) else cell for cell in cells], np.float64)
    except (TypeError, ValueError):
        return np.array([str(cell) for cell in cells])
