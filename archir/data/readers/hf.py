"""Data sets of the package `datasets`, by their name on the Hugging Face hub or from a local folder.

A source is written `NAME` or a path, then optionally `@CONFIGURATION`, then optionally `#COLUMN` for the
target. A net with a single image input requires one image column and one label column; for other nets,
columns are texts, sounds, arrays or numbers. Only data are read: code that comes with a data set is not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs, image_shape
from archir.data.readers import wav
from archir.data.readers.csv import Columns, source_of_table
from archir.data.readers.parquet import label_column
from archir.data.readers.source import (
    MAX_CLASSES,
    EncodedImages,
    Part,
    Source,
    check_labels,
    classes_of,
    image_part,
    read_error,
    require_package,
    source,
    split_targets,
)
from archir.data.readers.windows import token_windows
from archir.diagnostics.errors import describe_error, fail, join_names
from archir.diagnostics.hints import suggest

_TESTS = ("test", "validation", "valid", "val")
"""Names of held-out splits, in order of preference."""
_ERRORS = (OSError, ValueError, RuntimeError, KeyError, TypeError)
"""Exceptions that the package `datasets` raises for missing or corrupt data sets."""
IGNORED_CLASS = -1
"""Class number for missing target tokens, where a row is shorter than the net's input; losses ignore it."""


@source("hf")
def read(name: str, inputs: Inputs) -> Source:
    """Read a data set; images are decoded on access.

    Raises ArchError: A1101 (the data set cannot be loaded), A1102 (its columns do not fit the net), A1112 (the package
    `datasets` is not installed).
    """
    datasets = require_package(
        "datasets", "datasets", "the hub of Hugging Face", "; `parquet:FOLDER` reads a local copy"
    )
    name, _, columns = name.partition("#")
    _, targets = split_targets(f"#{columns}")
    name, _, configuration = name.partition("@")
    source_name = f"hf:{name}"
    try:
        if (Path(name) / "dataset_dict.json").is_file() or (Path(name) / "state.json").is_file():
            loaded = datasets.load_from_disk(name)
        else:
            loaded = datasets.load_dataset(name, configuration or None)
    except _ERRORS as error:
        raise read_error(source_name, error) from None
    by_name = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    if "train" not in by_name:
        raise fail("A1102", f"{source_name} has no part `train`, but {join_names(list(by_name))}")
    parts = [by_name["train"], *[by_name[part] for part in _TESTS if part in by_name][:1]]
    features = parts[0].features
    class_names = {
        key: tuple(feature.names)
        for key, feature in features.items()
        if isinstance(feature, datasets.ClassLabel) and feature.names
    }
    if len(inputs) != 1 or not inputs[0].is_image or not _image_columns(datasets, features):
        tables = [_other_columns(datasets, source_name, part) for part in parts]
        return source_of_columns(tables, inputs, targets, class_names, source_name)
    size = image_shape(inputs, f"`{source_name}`")
    integers = [key for key, value in features.items() if str(getattr(value, "dtype", "")).startswith(("int", "uint"))]
    label = label_column(source_name, integers, targets[0] if targets else None)
    names = class_names.get(label, ())
    names = names if len(names) <= MAX_CLASSES else ()
    image_parts = [_image_part(datasets, source_name, part, label, len(names) or None, size) for part in parts]
    return Source.of(image_parts, names or classes_of(*image_parts, are_labels=True))


def _image_columns(datasets: Any, features: Any) -> list[str]:
    return [name for name, feature in features.items() if isinstance(feature, datasets.Image)]


def _other_columns(datasets: Any, source_name: str, part: Any) -> dict[str, Sequence[Any]]:
    """Return the cells of all columns except image columns; sounds stay encoded. Raises ArchError (A1101)."""
    cells: dict[str, Sequence[Any]] = {}
    for name, feature in part.features.items():
        if isinstance(feature, datasets.Image):
            continue
        column = part.select_columns([name])
        if isinstance(feature, datasets.Audio):
            column = column.cast_column(name, datasets.Audio(decode=False))
        try:
            cells[name] = list(column[name])
        except _ERRORS as error:
            raise read_error(f"column `{name}` of {source_name}", error) from None
    return cells


def _image_part(
    datasets: Any, source_name: str, part: Any, label: str, classes: int | None, size: tuple[int, int, int]
) -> Part:
    """Return one split of a data set, with its image and label columns, as a part. Raises ArchError (A1102)."""
    images = _image_columns(datasets, part.features)
    if len(images) != 1 or label not in part.features:
        text = f"{source_name} must have one column of images, and `{label}`, in each part: {join_names(images)}"
        raise fail("A1102", text)
    cells = np.asarray(part.with_format("numpy")[label][:])
    labels = check_labels(f"column `{label}` of {source_name}", cells, classes)
    encoded = part.select_columns(images).cast_column(images[0], datasets.Image(decode=False))

    def fetch(row: int) -> tuple[str, bytes]:
        image_name = f"image {row} of {source_name}"
        try:
            value = encoded[row][images[0]]
            return image_name, value["bytes"] if value["bytes"] is not None else Path(value["path"]).read_bytes()
        except _ERRORS as error:
            raise fail("A1104", f"{image_name} cannot be read: {describe_error(error)}") from None

    return image_part(EncodedImages(fetch, len(labels), size), labels)


def source_of_columns(
    parts: Sequence[Columns],
    inputs: Inputs,
    targets: Sequence[str],
    names: Mapping[str, Sequence[str]],
    source_name: str,
) -> Source:
    """Convert tables of columns to a source: one table for training and, optionally, a held-out one.

    With a target column, each row is a sample. Text without targets is joined into one long token sequence, in which
    the target of each token is the next one. Columns are matched to inputs by name; a single input also takes the only
    column that fits its type. `targets` are column names, by default `label` or the only column that is not an input.
    `names` maps columns to their class names. `source_name` names the data set in messages. Raises ArchError: A1102
    (columns are missing or unsuitable), A1103 (they do not fit an input), A1104 (a sound cannot be decoded).
    """
    columns = [name for name in parts[0] if all(name in part for part in parts)]
    listing = f"columns are {join_names(columns)}"
    for target in targets:
        if target not in columns:
            where = f"the held-out part of {source_name}" if target in parts[0] else source_name
            hint = None if target in parts[0] else suggest(target, columns)
            raise fail("A1102", f"{where} has no column `{target}`", None, hint or listing)
    parts = [{name: part[name] for name in columns} for part in parts]
    if not columns or not all(len(part[columns[0]]) for part in parts):
        problem = f"a part of {source_name} has no rows" if columns else f"the parts of {source_name} share no column"
        raise fail("A1102", problem)
    if len(inputs) == 1 and _takes_tokens(inputs[0]):
        texts = _input_column(parts, inputs[0], targets, True)
        if texts is None and len(targets) == 1 and _is_text(parts[0][targets[0]][0]):
            texts, targets = targets[0], []
        if texts is not None and not targets:
            tokens = [_join_tokens(part[texts], f"`{texts}` of {source_name}") for part in parts]
            return token_windows(tokens, inputs[0], source_name)
    column_of = {spec.name: _input_column(parts, spec, targets, len(inputs) == 1) for spec in inputs}
    missing = [name for name, column in column_of.items() if column is None]
    if missing and len(inputs) == 1:
        return source_of_table(parts, targets, source_name)
    if missing:
        hint = f"inputs are columns by their names: {listing}"
        raise fail("A1102", f"{source_name} has no column for the input `{missing[0]}`", None, hint)
    if not targets:
        others = [name for name in columns if name not in column_of.values()]
        targets = ["label"] if "label" in others else others if len(others) == 1 else []
    if not targets:
        example = f"name it: {source_name}#{columns[-1]}"
        raise fail("A1102", f"which column of {source_name} is the target?", None, example)
    rates: dict[int, Any] = {}
    words = {name: _vocabulary(parts, name) for name in targets}
    tables = []
    for part in parts:
        x = {}
        for spec in inputs:
            column = column_of[spec.name] or ""
            x[spec.name] = _input_array(part[column], spec, f"`{column}` of {source_name}", rates)
        y = {name: _target_array(part[name], words[name], inputs, f"`{name}` of {source_name}") for name in targets}
        tables.append(Part(x, y))
    classes = tuple(names.get(targets[0]) or words[targets[0]] or ()) if len(targets) == 1 else ()
    return Source.of(tables, classes or classes_of(*tables))


def _takes_tokens(spec: Input) -> bool:
    return spec.type.rank == 1 and spec.type.dtype in ("i32", "i64")


def _is_text(cell: Any) -> bool:
    return isinstance(cell, str) or (isinstance(cell, Sequence) and all(isinstance(token, int) for token in cell))


def _is_sound(cell: Any) -> bool:
    """Return True if a cell is a sound, as represented by the package `datasets`."""
    return isinstance(cell, Mapping) and ("array" in cell or "bytes" in cell)


def _is_array(cell: Any) -> bool:
    return isinstance(cell, Sequence) and not isinstance(cell, str)


def _input_column(parts: Sequence[Columns], spec: Input, targets: Sequence[str], is_only_input: bool) -> str | None:
    """Return the column for an input, or None if there is none, or more than one.

    This is the column with its name; for the only input of a net, else the only column that fits and is not a target.
    """
    if spec.name in parts[0] and spec.name not in targets:
        return spec.name
    fits = _is_text if _takes_tokens(spec) else lambda cell: _is_sound(cell) or _is_array(cell)
    matching = [name for name, cells in parts[0].items() if name not in targets and len(cells) and fits(cells[0])]
    return matching[0] if is_only_input and len(matching) == 1 else None


def _join_tokens(cells: Sequence[Any], display_name: str) -> NDArray[Any]:
    """Join all texts of a column into one token sequence: UTF-8 bytes with newlines between strings, or token ids."""
    if all(isinstance(cell, str) for cell in cells):
        return np.frombuffer("\n".join(cells).encode(), np.uint8)
    return np.concatenate([_token_ids(cell, display_name) for cell in cells])


def _token_ids(cell: Any, display_name: str) -> NDArray[np.int64]:
    if isinstance(cell, str):
        return np.frombuffer(cell.encode(), np.uint8).astype(np.int64)
    if not _is_text(cell):
        raise fail("A1102", f"{display_name} must hold texts, or ids of tokens")
    try:
        return np.array(cell, np.int64)
    except OverflowError:
        raise fail("A1102", f"{display_name} holds a token beyond 64 bits") from None


def _input_array(cells: Sequence[Any], spec: Input, display_name: str, rates: dict[int, Any]) -> NDArray[Any]:
    if _takes_tokens(spec):
        return _pad_rows([_token_ids(cell, display_name) for cell in cells], spec.type.shape[0], 0)
    if len(cells) and _is_sound(cells[0]):
        return np.stack(
            [wav.decode_sound(cell, spec, f"sound {row} of {display_name}", rates) for row, cell in enumerate(cells)]
        )
    return _numeric_array(cells, display_name)


def _numeric_array(cells: Sequence[Any], display_name: str) -> NDArray[Any]:
    """Stack the cells of a column into a numeric array [n, ...]; floats become float32. Raises ArchError (A1102)."""
    try:
        array = np.array(cells)
    except ValueError:
        raise fail("A1102", f"rows of {display_name} have different shapes") from None
    if array.dtype.kind not in "fiub":
        raise fail("A1102", f"{display_name} holds no numbers")
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _pad_rows(rows: Sequence[NDArray[np.int64]], length: int, fill: int) -> NDArray[np.int64]:
    """Truncate rows, or pad them with `fill`, to the given length; return int64 [n, length]."""
    padded = np.full((len(rows), length), fill, np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row[:length]
    return padded


def _vocabulary(parts: Sequence[Columns], name: str) -> list[str]:
    cells = [cell for part in parts for cell in part[name]]
    return sorted({*cells}) if all(isinstance(cell, str) for cell in cells) else []


def _target_array(cells: Sequence[Any], words: Sequence[str], inputs: Inputs, display_name: str) -> NDArray[Any]:
    """Convert a column to a target array: class numbers of strings, one class per token (padded with IGNORED_CLASS),
    or numbers."""
    if words:
        return np.searchsorted(words, [str(cell) for cell in cells]).astype(np.int64)
    if len(inputs) == 1 and _takes_tokens(inputs[0]) and all(_is_array(cell) and _is_text(cell) for cell in cells):
        return _pad_rows([_token_ids(cell, display_name) for cell in cells], inputs[0].type.shape[0], IGNORED_CLASS)
    return _numeric_array(cells, display_name)
