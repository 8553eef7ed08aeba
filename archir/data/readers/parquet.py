"""Parquet files in the layout of the Hugging Face hub: a column of encoded images, `{bytes, path}`, and one of labels.

Files are parted by their names: those that begin with `train`, and those that begin with `test` or `val`.
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

from archir.data.readers.encoded import Encoded
from archir.data.readers.extras import needed
from archir.data.readers.source import MOST, Part, Source, classes_of, labelled, of_images, unreadable
from archir.data.readers.table import arranged
from archir.diagnostics.errors import ArchError, fail, listed, suggest

_TESTS = ("test", "val")
KEPT = 1 << 30
"""Bytes of encoded images that are kept in memory."""


def read(path: Path, size: tuple[int, int, int], column: str | None = None) -> Source:
    """The parts of a file or folder. `column` names the labels where there are several columns of integers.

    Raises ArchError: A1101 (a file cannot be read), A1102 (its form), A1112 (pyarrow is not installed).
    """
    parquet = needed("pyarrow.parquet", "data", "Parquet")
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    if not files:
        raise fail("A1101", f"there is no Parquet file in {path}")
    test = [file for file in files if file.name.startswith(_TESTS)]
    train = [file for file in files if file.name.startswith("train")]
    if not train or not test:
        train, test = train or test or files, []
    parts = [_Table(parquet, some, column) for some in (train, test) if some]
    names = parts[0].names
    read = [part.part(size, len(names) if names else None) for part in parts]
    return Source(read[0], read[1] if test else None, names or classes_of(*read, certain=True))


def tabled(path: Path, targets: Sequence[str]) -> Source:
    """A file or a folder whose columns are numbers and words, as tables are read. Raises ArchError as `read` does."""
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    test = [file for file in files if file.name.startswith(_TESTS)]
    train = [file for file in files if file not in test]
    parts = []
    for some in (train or test, test if train else []):
        found: dict[str, list[Any]] = {}
        for file in some:
            for name, cells in columns(file).items():
                found.setdefault(name, []).extend(cells)
        if some:
            parts.append(found)
    if not parts:
        raise fail("A1101", f"there is no Parquet file in {path}")
    return arranged(parts, targets, str(path))


def columns(path: Path) -> dict[str, list[Any]]:
    """The cells of a file's columns, by their names. Raises ArchError (A1101, A1112)."""
    parquet = needed("pyarrow.parquet", "data", "Parquet")
    try:
        read = parquet.read_table(path)
        return {name: read.column(name).to_pylist() for name in read.column_names}
    except (OSError, ValueError, needed("pyarrow", "data", "Parquet").ArrowException) as error:
        raise unreadable(path, error) from None


def present(folder: Path) -> bool:
    """Whether a folder holds Parquet files."""
    return any(folder.glob("*.parquet")) or any(folder.glob("data/*.parquet"))


class _Table:
    """Some files, one after another."""

    def __init__(self, parquet: Any, paths: Sequence[Path], column: str | None) -> None:
        self._errors = (OSError, ValueError, needed("pyarrow", "data", "Parquet").ArrowException)
        self._files = []
        self._paths = paths
        for path in paths:
            try:
                self._files.append(parquet.ParquetFile(path))
            except self._errors as error:
                raise unreadable(path, error) from None
        schema = self._files[0].schema_arrow
        self._image = _image_column(paths[0], schema)
        self._label = _label_column(paths[0], schema, column)
        self.names = _names(schema, self._label)
        for path, file in zip(paths, self._files, strict=True):
            if not file.schema_arrow.equals(schema):
                raise fail("A1102", f"the columns of {path} are not those of {paths[0]}")
        self._groups = [(f, g) for f, file in enumerate(self._files) for g in range(file.metadata.num_row_groups)]
        sizes = [self._files[f].metadata.row_group(g).num_rows for f, g in self._groups]
        self._starts = [0, *accumulate(sizes)]
        self._kept: OrderedDict[int, Any] = OrderedDict()

    def part(self, size: tuple[int, int, int], classes: int | None) -> Part:
        """The images, decoded when they are asked for, and the labels."""
        labels: list[Any] = []
        for number in range(len(self._groups)):
            labels += self._read(number, self._label).to_pylist()
        where = f"column `{self._label}` of {self._paths[0]}"
        if None in labels or len(labels) != self._starts[-1]:
            raise fail("A1102", f"{where} lacks labels")
        numbers = np.array(labels)
        return of_images(Encoded(self._fetch, len(labels), size), labelled(where, numbers, classes))

    def _read(self, number: int, column: str) -> Any:
        file, group = self._groups[number]
        try:
            return self._files[file].read_row_group(group, columns=[column]).column(column)
        except self._errors as error:
            raise unreadable(self._paths[file], error) from None

    def _group(self, number: int) -> Any:
        """The images of a row group. Those that were asked for last are kept: shuffled batches ask for all of them."""
        if number not in self._kept:
            self._kept[number] = self._read(number, self._image)
            while len(self._kept) > 1 and sum(one.nbytes for one in self._kept.values()) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(number)
        return self._kept[number]

    def _fetch(self, row: int) -> tuple[str, bytes]:
        number = bisect_right(self._starts, row) - 1
        value = self._group(number)[row - self._starts[number]].as_py()
        content = value.get("bytes") if isinstance(value, dict) else value
        name = f"image {row} of {self._paths[self._groups[number][0]]}"
        if not isinstance(content, bytes):
            raise fail("A1104", f"{name} has no bytes", None, "images must be stored in the file, not beside it")
        return name, content


def _image_column(path: Path, schema: Any) -> str:
    found = [field.name for field in schema if _is_image(field.type)]
    if len(found) != 1:
        hint = "images are a column of binary values, or of {bytes, path}"
        raise fail("A1102", f"{path} has {len(found)} columns of images, not one: {_shown(schema)}", None, hint)
    name: str = found[0]
    return name


def _is_image(kind: Any) -> bool:
    types = needed("pyarrow.types", "data", "Parquet")
    if types.is_struct(kind):
        return any(field.name == "bytes" and _is_image(field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _label_column(path: Path, schema: Any, column: str | None) -> str:
    types = needed("pyarrow.types", "data", "Parquet")
    found = [field.name for field in schema if types.is_integer(field.type)]
    return label_column(str(path), found, column)


def label_column(where: str, found: Sequence[str], column: str | None) -> str:
    """The column of labels among those that hold integers: the one that is asked for, `label`, or the only one."""
    if column is None and (len(found) == 1 or "label" in found):
        return "label" if "label" in found else found[0]
    if column in found and column is not None:
        return column
    raise _unknown_column(where, found, column)


def _unknown_column(where: str, found: Sequence[str], column: str | None) -> ArchError:
    if column is None:
        hint = f"name one, such as {where}#{found[0]}" if found else None
        return fail(
            "A1102", f"which column of {where} holds labels? {listed(found) or 'none holds integers'}", None, hint
        )
    hint = suggest(column, found) or f"columns of integers are {listed(found)}"
    return fail("A1102", f"{where} has no column of integers `{column}`", None, hint)


def _names(schema: Any, label: str) -> tuple[str, ...]:
    """The names of classes that the hub's metadata holds, or nothing."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names = stored["info"]["features"][label]["names"]
    except (ValueError, KeyError, TypeError):
        return ()
    known = isinstance(names, list) and 2 <= len(names) <= MOST and all(isinstance(name, str) for name in names)
    return tuple(names) if known else ()


def _shown(schema: Any) -> str:
    return listed([field.name for field in schema])
