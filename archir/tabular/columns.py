"""The columns of a file of results by name: of `.npz`, `.csv` and `.parquet`, as data are read, and of `.pkl`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from re import fullmatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.readers import npz, parquet, table
from archir.diagnostics.errors import fail, listed, suggest
from archir.tabular import pickled
from archir.utils.globs import matches

FORMS = (".npz", ".csv", ".parquet", ".pkl")


@dataclass(frozen=True)
class Columns:
    """Arrays with a row for each network, by name; of two dimensions, each column of one is `name[0]`, `name[1]`..."""

    file: str
    arrays: Mapping[str, NDArray[Any]]

    def one(self, name: str) -> NDArray[Any]:
        """A column [n]. Raises ArchError (A2251)."""
        found = self._of(name)
        if found is None or found.ndim != 1:
            text = f"{self.file} has no column `{name}`"
            hint = suggest(name, self.arrays) or f"there are {listed(list(self.arrays))}"
            if found is not None:
                text, hint = f"`{name}` of {self.file} is several columns", f"`{name}[0]` is the first one"
            raise fail("A2251", text, None, hint)
        return found

    def several(self, pattern: str) -> NDArray[np.float64]:
        """The columns of numbers that a pattern names, [n, columns]. Raises ArchError (A2251)."""
        found = [self._of(pattern)] if "*" not in pattern else [self._of(one) for one in self._matching(pattern)]
        columns = [one.reshape(len(one), -1) for one in found if one is not None]
        if not columns:
            self.one(pattern)
        try:
            return np.concatenate(columns, 1).astype(np.float64)
        except ValueError:
            raise fail("A2251", f"`{pattern}` of {self.file} is no column of numbers") from None

    def where(self, name: str, cell: str | float) -> Columns:
        """The rows in which a column has this cell. Raises ArchError (A2251) if there are none."""
        column = self.one(name)
        rows = np.array([one == cell or str(one).lower() == str(cell).lower() for one in column.tolist()], bool)
        if not rows.any():
            raise fail("A2251", f"no row of {self.file} has `{name} = {cell}`")
        return Columns(self.file, {other: array[rows] for other, array in self.arrays.items()})

    @property
    def rows(self) -> int:
        """How many there are. Raises ArchError (A2251) where columns are not of one length."""
        lengths = {len(array) if array.ndim else 0 for array in self.arrays.values()}
        if len(lengths) != 1 or not min(lengths):
            raise fail(
                "A2251", f"the columns of {self.file} have {listed(sorted(map(str, lengths)))} rows, not as many"
            )
        return lengths.pop()

    def _matching(self, pattern: str) -> Iterator[str]:
        return (name for name in self.arrays if matches(pattern, name))

    def _of(self, name: str) -> NDArray[Any] | None:
        if name in self.arrays:
            return self.arrays[name]
        part = fullmatch(r"(.*)\[(\d{1,9})\]", name)
        if part is None:
            return None
        whole = self._of(part[1])
        if whole is None or whole.ndim < 2 or int(part[2]) >= whole.shape[1]:
            return None
        column: NDArray[Any] = whole[:, int(part[2])]
        return column


def read(path: Path) -> Columns:
    """The columns of a file. Raises ArchError: A2251 (another form), A1101, A1102, A1112 (it cannot be read)."""
    match path.suffix:
        case ".npz":
            arrays = npz.arrays(path)
            rows = max((len(array) for array in arrays.values() if array.ndim), default=0)
            return Columns(path.name, {k: one for k, one in arrays.items() if one.ndim and len(one) == rows})
        case ".pkl":
            return Columns(path.name, pickled.arrays(path))
        case ".csv":
            cells: Mapping[str, Any] = table.columns(path)
        case ".parquet":
            cells = parquet.columns(path)
        case _:
            text = f"a table of results is {listed(FORMS)}, not `{path.name}`"
            raise fail("A2251", text, None, "a file of another form is written as one of these first")
    return Columns(path.name, {name: _array(column) for name, column in cells.items()})


def _array(cells: Any) -> NDArray[Any]:
    """Numbers where all cells are some, or are empty; else words. Cells that are lists make an array of rows."""
    try:
        return np.array([np.nan if cell in ("", None) else cell for cell in cells], np.float64)
    except (TypeError, ValueError):
        return np.array([str(cell) for cell in cells])
