"""Parquet files in the layout of the Hugging Face hub: a column of encoded images, `{bytes, path}`, and a label
column.

File names tell the parts apart: they start with `train`, or with `test` or `val`.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from archir.data.readers.encoded import EncodedImages
from archir.data.readers.optional_packages import require_package
from archir.data.readers.source import MAX_CLASSES, Part, Source, check_labels, classes_of, image_part, read_error
from archir.data.readers.table import source_of_table
from archir.diagnostics.errors import ArchError, fail, join_names
from archir.diagnostics.hints import suggest

_TESTS = ("test", "val")
"""File name prefixes of the held-out part."""
MAX_CACHED_BYTES = 1 << 30
"""Maximum total size in bytes of encoded images cached in memory."""


def read(path: Path, size: tuple[int, int, int], column: str | None = None) -> Source:
    """Read a Parquet file or folder with images, which are resized to `size` [C, H, W].

    `column` is the label column; it is required if several columns have integers. Raises ArchError: A1101 (a file
    cannot be read), A1102 (the columns do not fit), A1112 (pyarrow is not installed).
    """
    parquet = require_package("pyarrow.parquet", "data", "Parquet")
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    if not files:
        raise fail("A1101", f"there is no Parquet file in {path}")
    test = [file for file in files if file.name.startswith(_TESTS)]
    train = [file for file in files if file.name.startswith("train")]
    if not train or not test:
        train, test = train or test or files, []
    parts = [_Table(parquet, part_files, column) for part_files in (train, test) if part_files]
    names = parts[0].names
    read = [part.part(size, len(names) if names else None) for part in parts]
    return Source(read[0], read[1] if test else None, names or classes_of(*read, are_labels=True))


def read_tabular(path: Path, targets: Sequence[str]) -> Source:
    """Read a Parquet file or folder as a table of numbers and strings, with the given target columns.

    Raises ArchError (A1101, A1102, A1112).
    """
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    test = [file for file in files if file.name.startswith(_TESTS)]
    train = [file for file in files if file not in test]
    parts = []
    for part_files in (train or test, test if train else []):
        cells_by_column: dict[str, list[Any]] = {}
        for file in part_files:
            for name, cells in read_columns(file).items():
                cells_by_column.setdefault(name, []).extend(cells)
        if part_files:
            parts.append(cells_by_column)
    if not parts:
        raise fail("A1101", f"there is no Parquet file in {path}")
    return source_of_table(parts, targets, str(path))


def read_columns(path: Path) -> dict[str, list[Any]]:
    """Return the cells of all columns of a Parquet file, by column name. Raises ArchError (A1101, A1112)."""
    parquet = require_package("pyarrow.parquet", "data", "Parquet")
    try:
        read = parquet.read_table(path)
        return {name: read.column(name).to_pylist() for name in read.column_names}
    except (OSError, ValueError, require_package("pyarrow", "data", "Parquet").ArrowException) as error:
        raise read_error(path, error) from None


def has_files(folder: Path) -> bool:
    """Return True if a folder contains Parquet files, directly or in `data`."""
    return any(folder.glob("*.parquet")) or any(folder.glob("data/*.parquet"))


class _Table:
    """Image and label columns of several Parquet files; rows are numbered consecutively across the files."""

    def __init__(self, parquet: Any, paths: Sequence[Path], column: str | None) -> None:
        self._errors = (OSError, ValueError, require_package("pyarrow", "data", "Parquet").ArrowException)
        self._files = []
        self._paths = paths
        for path in paths:
            try:
                self._files.append(parquet.ParquetFile(path))
            except self._errors as error:
                raise read_error(path, error) from None
        schema = self._files[0].schema_arrow
        self._image = _image_column(paths[0], schema)
        self._label = _label_column(paths[0], schema, column)
        self.names = _class_names(schema, self._label)
        for path, file in zip(paths, self._files, strict=True):
            if not file.schema_arrow.equals(schema):
                raise fail("A1102", f"the columns of {path} are not those of {paths[0]}")
        self._groups = [(f, g) for f, file in enumerate(self._files) for g in range(file.metadata.num_row_groups)]
        sizes = [self._files[f].metadata.row_group(g).num_rows for f, g in self._groups]
        self._starts = [0, *accumulate(sizes)]
        self._cache: OrderedDict[int, Any] = OrderedDict()

    def part(self, size: tuple[int, int, int], classes: int | None) -> Part:
        """Return all images (decoded on access) with their labels as a part. Raises ArchError (A1101, A1102)."""
        labels: list[Any] = []
        for number in range(len(self._groups)):
            labels += self._read(number, self._label).to_pylist()
        display_name = f"column `{self._label}` of {self._paths[0]}"
        if None in labels or len(labels) != self._starts[-1]:
            raise fail("A1102", f"{display_name} lacks labels")
        numbers = np.array(labels)
        return image_part(EncodedImages(self._fetch, len(labels), size), check_labels(display_name, numbers, classes))

    def _read(self, number: int, column: str) -> Any:
        """Read one column of a row group; row groups are numbered consecutively across the files. Raises ArchError
        (A1101)."""
        file, group = self._groups[number]
        try:
            return self._files[file].read_row_group(group, columns=[column]).column(column)
        except self._errors as error:
            raise read_error(self._paths[file], error) from None

    def _group(self, number: int) -> Any:
        """Return the encoded images of a row group.

        The most recently used row groups are cached, up to MAX_CACHED_BYTES, since shuffled batches read from all of
        them.
        """
        if number not in self._cache:
            self._cache[number] = self._read(number, self._image)
            while len(self._cache) > 1 and sum(group.nbytes for group in self._cache.values()) > MAX_CACHED_BYTES:
                self._cache.popitem(last=False)
        self._cache.move_to_end(number)
        return self._cache[number]

    def _fetch(self, row: int) -> tuple[str, bytes]:
        """Return name and encoded content of the image in a row. Raises ArchError (A1104)."""
        number = bisect_right(self._starts, row) - 1
        value = self._group(number)[row - self._starts[number]].as_py()
        content = value.get("bytes") if isinstance(value, dict) else value
        name = f"image {row} of {self._paths[self._groups[number][0]]}"
        if not isinstance(content, bytes):
            raise fail("A1104", f"{name} has no bytes", None, "images must be stored in the file, not beside it")
        return name, content


def _image_column(path: Path, schema: Any) -> str:
    """Return the name of the only image column. Raises ArchError (A1102) if there is not exactly one."""
    names = [field.name for field in schema if _is_image(field.type)]
    if len(names) != 1:
        hint = "images are a column of binary values, or of {bytes, path}"
        raise fail("A1102", f"{path} has {len(names)} columns of images, not one: {_column_names(schema)}", None, hint)
    name: str = names[0]
    return name


def _is_image(kind: Any) -> bool:
    """Return True for column types that hold encoded images: binary, or a struct with a binary field `bytes`."""
    types = require_package("pyarrow.types", "data", "Parquet")
    if types.is_struct(kind):
        return any(field.name == "bytes" and _is_image(field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _label_column(path: Path, schema: Any, column: str | None) -> str:
    """Return the label column of a Parquet schema. Raises ArchError (A1102)."""
    types = require_package("pyarrow.types", "data", "Parquet")
    integer_columns = [field.name for field in schema if types.is_integer(field.type)]
    return label_column(str(path), integer_columns, column)


def label_column(source_name: str, integer_columns: Sequence[str], column: str | None) -> str:
    """Return the label column: the requested one, else `label`, else the only column in `integer_columns`.

    `column` is the requested column or None. Raises ArchError (A1102) if it is not in `integer_columns`, or if
    the choice is ambiguous.
    """
    if column is None and (len(integer_columns) == 1 or "label" in integer_columns):
        return "label" if "label" in integer_columns else integer_columns[0]
    if column in integer_columns and column is not None:
        return column
    raise _label_column_error(source_name, integer_columns, column)


def _label_column_error(source_name: str, integer_columns: Sequence[str], column: str | None) -> ArchError:
    """Return the error (A1102) for a label column that is missing or ambiguous."""
    if column is None:
        hint = f"name one, such as {source_name}#{integer_columns[0]}" if integer_columns else None
        return fail(
            "A1102",
            f"which column of {source_name} holds labels? {join_names(integer_columns) or 'none holds integers'}",
            None,
            hint,
        )
    hint = suggest(column, integer_columns) or f"columns of integers are {join_names(integer_columns)}"
    return fail("A1102", f"{source_name} has no column of integers `{column}`", None, hint)


def _class_names(schema: Any, label: str) -> tuple[str, ...]:
    """Return the class names stored in the Hugging Face metadata; () if there are none."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names = stored["info"]["features"][label]["names"]
    except (ValueError, KeyError, TypeError):
        return ()
    is_valid = (
        isinstance(names, list) and 2 <= len(names) <= MAX_CLASSES and all(isinstance(name, str) for name in names)
    )
    return tuple(names) if is_valid else ()


def _column_names(schema: Any) -> str:
    return join_names([field.name for field in schema])
