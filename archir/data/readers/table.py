"""Tables: a row for each sample, some columns of which are targets, such as `csv:houses.csv#price`.

Columns of numbers are inputs as they are. A column with words is an input for each word, 1 where it stands; as a
target, it is classes. Of several targets that are numbers, a sample has one of each: `#length,width`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.readers.source import Part, Source, classes_of, unreadable
from archir.diagnostics.errors import fail, listed, suggest
from archir.utils.files import read_bytes

MOST_BYTES = 1 << 30
MOST_WORDS = 1000
"""Different words of a column that are inputs."""
_TESTS = ("test", "val")

Columns = Mapping[str, Sequence[Any]]


def read(name: str) -> Source:
    """`FILE#TARGET,TARGET`, or a folder of train*.csv and test*.csv. Raises ArchError (A1101, A1102)."""
    path, targets = parted(name)
    files = [path] if path.is_file() else sorted(path.glob("*.csv"))
    train = [file for file in files if not file.name.startswith(_TESTS)]
    test = [file for file in files if file.name.startswith(_TESTS)] if train else []
    if not files:
        raise fail("A1101", f"there is no table {path}")
    parts = [_joined([columns(file) for file in some]) for some in (train or files, test) if some]
    return arranged(parts, targets, str(path))


def parted(name: str) -> tuple[Path, list[str]]:
    """The path and the targets of `PATH#TARGET,TARGET`."""
    path, _, targets = name.partition("#")
    return Path(path), [target.strip() for target in targets.split(",") if target.strip()]


def arranged(parts: Sequence[Columns], targets: Sequence[str], what: str) -> Source:
    """A source of columns, those of what is held out as a second part. Raises ArchError (A1102)."""
    names = list(parts[0])
    for part in parts[1:]:
        if list(part) != names:
            raise fail("A1102", f"{what} has other columns to test on: {listed(list(part))}, not {listed(names)}")
    for target in targets:
        if target not in names:
            near = suggest(target, names) or f"columns are {listed(names)}"
            raise fail("A1102", f"{what} has no column `{target}`", None, near)
    if not targets or len(set(targets)) == len(names):
        hint = f"name a target after the path: {what}#{names[-1]}" if names else None
        raise fail("A1102", f"{what} needs targets and inputs among its columns {listed(names)}", None, hint)
    words = {name: _words(parts, name, what) for name in names}
    inputs = [name for name in names if name not in targets]
    whole = {name: all(_is_whole(cell) for part in parts for cell in part[name]) for name in targets}
    classes = tuple(words[targets[0]] or ()) if len(targets) == 1 else ()
    if any(words[target] for target in targets) and len(targets) > 1:
        raise fail("A1102", f"{what}: of several targets, all are numbers")
    made = []
    for part in parts:
        x = np.concatenate([_inputs(part[name], words[name], name, what) for name in inputs], 1)
        y = [_target(part[name], words[name], whole[name], name, what) for name in targets]
        made.append(Part({"table": x}, {targets[0]: y[0]} if len(y) == 1 else {"target": np.stack(y, 1)}))
    return Source(made[0], made[1] if len(made) > 1 else None, classes or classes_of(*made))


def columns(path: Path) -> dict[str, list[str]]:
    """The cells of a file's columns, by their names. Raises ArchError (A1101, A1102)."""
    try:
        text = read_bytes(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise unreadable(path, error) from None
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise fail("A1102", f"{path} has no rows", None, "the first line names the columns")
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names):
        raise fail("A1102", f"two columns of {path} have one name: {listed(names)}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise fail("A1102", f"{path}, row {number} has {len(row)} cells, not {len(names)}")
    return {name: [row[place].strip() for row in rows[1:]] for place, name in enumerate(names)}


def _joined(tables: Sequence[Columns]) -> Columns:
    return {name: [cell for table in tables for cell in table.get(name, ())] for name in tables[0]}


def _words(parts: Sequence[Columns], name: str, what: str) -> list[str] | None:
    """The different words of a column, in order; None if it holds numbers. Raises ArchError (A1102) for empty cells."""
    cells = [cell for part in parts for cell in part[name]]
    for number, cell in enumerate(cells):
        if cell is None or cell == "":
            raise fail("A1102", f"{what}: `{name}` is empty in row {number + 2}", None, "leave the row out, or fill it")
    if all(map(_is_number, cells)):
        return None
    return sorted({str(cell) for cell in cells})


def _is_number(cell: Any) -> bool:
    if isinstance(cell, bool | int | float):
        return True
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _is_whole(cell: Any) -> bool:
    """Whether a cell is an integer, and written as one."""
    if isinstance(cell, float):
        return False
    try:
        return abs(int(cell)) < 2**53
    except (TypeError, ValueError):
        return False


def _inputs(cells: Sequence[Any], words: list[str] | None, name: str, what: str) -> NDArray[np.float32]:
    """[n, 1], or [n, words]."""
    if words is None:
        return np.array([float(cell) for cell in cells], np.float32)[:, None]
    if len(words) > MOST_WORDS:
        raise fail("A1102", f"{what}: `{name}` has {len(words)} different words", None, "leave the column out")
    places = np.searchsorted(words, [str(cell) for cell in cells])
    return np.eye(len(words), dtype=np.float32)[places]


def _target(cells: Sequence[Any], words: list[str] | None, whole: bool, name: str, what: str) -> NDArray[Any]:
    """Classes, integers if all cells of the table are `whole` numbers, or float32."""
    if words is not None:
        return np.searchsorted(words, [str(cell) for cell in cells]).astype(np.int64)
    numbers = np.array([float(cell) for cell in cells])
    if not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers)).argmax())
        raise fail("A1102", f"{what}: `{name}` is no finite number in row {row + 2}")
    return numbers.astype(np.int64 if whole else np.float32)
