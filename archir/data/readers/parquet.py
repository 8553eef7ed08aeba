"""Parquet files: tables, or images in the layout of the Hugging Face hub, which is a column of encoded images,
`{bytes, path}`, and a label column."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from archir.data.inputs import Inputs, image_shape
from archir.data.readers.csv import read_parts, source_of_table
from archir.data.readers.source import (
    MAX_CLASSES,
    EncodedImages,
    Part,
    Source,
    check_labels,
    classes_of,
    existing_path,
    image_part,
    read_error,
    require_package,
    source,
    split_files,
    split_targets,
)
from archir.data.readers.unpacked import unpacked_column
from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest

MAX_CACHED_BYTES = 1 << 30
"""Maximum total size in bytes of encoded images that are kept in memory."""


@source("parquet")
def read(name: str, inputs: Inputs) -> Source:
    """Read `PATH#COLUMN`, a Parquet file or a folder of them, as images with labels if the net takes a single image,
    else as a table.

    The label column is required if several columns have integers. Raises ArchError: A1101 (a file cannot be read),
    A1102 (the columns do not fit), A1103 (the net takes other inputs), A1112 (pyarrow is not installed).
    """
    path, targets = split_targets(name)
    parquet = require_package("pyarrow.parquet", "data", "Parquet")
    files = [path] if existing_path(path).is_file() else sorted(path.rglob("*.parquet"))
    if not files:
        raise fail("A1101", f"there is no Parquet file in {path}")
    if len(inputs) != 1 or not inputs[0].is_image:
        return source_of_table(read_parts(files, read_columns), targets, str(path))
    size = image_shape(inputs, f"`{name}`")
    tables = [_ImageTable(parquet, part_files, targets[0] if targets else None) for part_files in split_files(files)]
    names = tables[0].class_names
    parts = [table.part(size, len(names) or None) for table in tables]
    return Source.of(parts, names or classes_of(*parts, are_labels=True))


def read_columns(path: Path) -> dict[str, list[Any]]:
    """Return the cells of all columns of a Parquet file, by column name. Raises ArchError (A1101, A1112)."""
    parquet = require_package("pyarrow.parquet", "data", "Parquet")
    try:
        table: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    except (OSError, ValueError, require_package("pyarrow", "data", "Parquet").ArrowException) as error:
        raise read_error(path, error) from None
    return table


class _ImageTable:
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
        for path, file in zip(paths, self._files, strict=True):
            if not file.schema_arrow.equals(schema):
                raise fail("A1102", f"the columns of {path} are not those of {paths[0]}")
        types = require_package("pyarrow.types", "data", "Parquet")
        images = [field.name for field in schema if _is_image(field.type)]
        if len(images) != 1:
            text = f"{paths[0]} has {len(images)} columns of images, not one: {join_names(schema.names)}"
            raise fail("A1102", text, None, "images are a column of binary values, or of {bytes, path}")
        self._image: str = images[0]
        integers = [field.name for field in schema if types.is_integer(field.type)]
        self._label = label_column(str(paths[0]), integers, column)
        self.class_names = _class_names(schema, self._label)
        self._groups = [(f, g) for f, file in enumerate(self._files) for g in range(file.metadata.num_row_groups)]
        sizes = [self._files[f].metadata.row_group(g).num_rows for f, g in self._groups]
        self._starts = [0, *accumulate(sizes)]
        self._cache: dict[int, Any] = {}
        self._is_large = sum(map(self._image_bytes, range(len(self._groups)))) > MAX_CACHED_BYTES

    def part(self, size: tuple[int, int, int], classes: int | None) -> Part:
        """Return all images (decoded on access) with their labels as a part. Raises ArchError (A1101, A1102)."""
        labels: list[Any] = []
        for number in range(len(self._groups)):
            labels += self._read(number, self._label).to_pylist()
        display_name = f"column `{self._label}` of {self._paths[0]}"
        if None in labels or len(labels) != self._starts[-1]:
            raise fail("A1102", f"{display_name} lacks labels")
        numbers = check_labels(display_name, np.array(labels), classes)
        return image_part(EncodedImages(self._fetch, len(labels), size), numbers)

    def _image_bytes(self, number: int) -> int:
        """Return the size of the encoded images of a row group."""
        file, group = self._groups[number]
        columns = self._files[file].metadata.row_group(group)
        parts = [columns.column(position) for position in range(columns.num_columns)]
        return sum(part.total_uncompressed_size for part in parts if part.path_in_schema.split(".")[0] == self._image)

    def _read(self, number: int, column: str) -> Any:
        """Read one column of a row group; row groups are numbered consecutively across the files. Raises ArchError
        (A1101)."""
        file, group = self._groups[number]
        try:
            return self._files[file].read_row_group(group, columns=[column]).column(column)
        except self._errors as error:
            raise read_error(self._paths[file], error) from None

    def _group(self, number: int) -> Any:
        """Return the encoded images of a row group: from memory, or from a copy of the file if all of them take more
        than MAX_CACHED_BYTES."""
        if number not in self._cache:
            if self._is_large:
                file, _ = self._groups[number]
                first = self._groups.index((file, 0))
                copies = unpacked_column(self._paths[file], self._files[file], self._image)
                self._cache.update({first + position: column for position, column in enumerate(copies)})
            else:
                self._cache[number] = self._read(number, self._image)
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


def _is_image(kind: Any) -> bool:
    """Return True for column types that hold encoded images: binary, or a struct with a binary field `bytes`."""
    types = require_package("pyarrow.types", "data", "Parquet")
    if types.is_struct(kind):
        return any(field.name == "bytes" and _is_image(field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def label_column(source_name: str, integer_columns: Sequence[str], column: str | None) -> str:
    """Return the label column: the requested one, else `label`, else the only column in `integer_columns`.

    `column` is the requested column or None. Raises ArchError (A1102) if it is not in `integer_columns`, or if
    the choice is ambiguous.
    """
    if column is not None:
        if column not in integer_columns:
            hint = suggest(column, integer_columns) or f"columns of integers are {join_names(integer_columns)}"
            raise fail("A1102", f"{source_name} has no column of integers `{column}`", None, hint)
        return column
    if "label" in integer_columns:
        return "label"
    if len(integer_columns) != 1:
        text = f"which column of {source_name} holds labels? {join_names(integer_columns) or 'none holds integers'}"
        example = f"name one, such as {source_name}#{integer_columns[0]}" if integer_columns else None
        raise fail("A1102", text, None, example)
    return integer_columns[0]


def _class_names(schema: Any, label: str) -> tuple[str, ...]:
    """Return the class names stored in the Hugging Face metadata; () if there are none."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names = stored["info"]["features"][label]["names"]
    except (ValueError, KeyError, TypeError):
        return ()
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if are_names and 2 <= len(names) <= MAX_CLASSES else ()
