"""Named arrays: in memory, in .npz files, and in folders of .npy files, which are memory-mapped.

The name of an array determines whether it holds inputs or targets, and whether it belongs to the training part or
to the held-out part.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from archir.data.inputs import Inputs
from archir.data.readers.source import (
    MAX_ARRAY_BYTES,
    MAX_COMPRESSION,
    UNCHECKED_BYTES,
    Part,
    Source,
    check_labels,
    classes_of,
    existing_path,
    read_error,
    source,
)
from archir.diagnostics.errors import fail
from archir.utils.files import open_regular

MAX_ARRAYS = 1000
"""Maximum number of arrays in an .npz file."""
_DAMAGED = (OSError, ValueError, BadZipFile, EOFError, NotImplementedError, RuntimeError, KeyError, zlib.error)
"""Exceptions that numpy and zipfile raise for unreadable or corrupt files."""
_KINDS = {"x": "x", "y": "y", "images": "x", "labels": "y"}
_HINT = (
    "it needs x_train, y_train, x_test and y_test, or images and labels, or arrays whose names begin with x and y, "
    "optionally with _train and _test at the end: x_left, x_right, y_depth"
)


@source("npz")
def read(name: str, inputs: Inputs) -> Source:
    """Read an .npz file. Raises ArchError: A1101 (it cannot be read), A1102 (its arrays have unexpected names or
    shapes)."""
    return source_of_arrays(read_arrays(Path(name)), name)


@source("npy")
def read_memory_mapped(name: str, inputs: Inputs) -> Source:
    """Read a folder of .npy files, named like the arrays in an .npz file, or a single .npy file of inputs;
    memory-mapped.

    Raises ArchError (A1101, A1102).
    """
    path = existing_path(name)
    arrays = {}
    for file in sorted(path.glob("*.npy")) if path.is_dir() else [path]:
        try:
            arrays[file.stem if path.is_dir() else "x"] = np.load(file, mmap_mode="r", allow_pickle=False)
        except _DAMAGED as error:
            raise read_error(file, error) from None
    return source_of_arrays(arrays, name)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file by name. Raises ArchError (A1101)."""
    try:
        with open_regular(path) as stream:
            _check_headers(stream)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except _DAMAGED as error:
        raise read_error(path, error) from None


def _check_headers(stream: BinaryIO) -> None:
    """Check the array headers in an .npz file before memory for the arrays is allocated.

    Raises ValueError if an array does not have the size in its header, or if the arrays are implausibly large for
    the file.
    """
    bytes_left = max(UNCHECKED_BYTES, MAX_COMPRESSION * stream.seek(0, os.SEEK_END))
    with ZipFile(stream) as archive:
        if len(archive.infolist()) > MAX_ARRAYS:
            raise ValueError(f"it holds more than {MAX_ARRAYS} arrays")
        for member in archive.infolist():
            with archive.open(member) as file:
                version = npy.read_magic(file)
                header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = header(file)
                expected = file.tell() + math.prod(shape) * dtype.itemsize
            if dtype.hasobject or any(size < 0 for size in shape):
                raise ValueError(f"`{member.filename}` is not an array of numbers")
            if expected != member.file_size or expected > MAX_ARRAY_BYTES:
                raise ValueError(f"`{member.filename}` claims to hold {list(shape)} of {dtype}, but does not")
            bytes_left -= expected
            if bytes_left < 0:
                raise ValueError(f"its arrays are more than {MAX_COMPRESSION} times as large as the file")


def source_of_arrays(arrays: Mapping[str, NDArray[Any]], source_name: str) -> Source:
    """Build a source from named arrays.

    `x`, `images` and names that start with `x_` are inputs; `y`, `labels` and names that start with `y_` are targets.
    The suffixes `_train` and `_test` select the training or the held-out part. An array `labels` must contain class
    numbers. `source_name` names the source in messages. Raises ArchError (A1102).
    """
    parts_by_name: dict[str, tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]] = {}
    listing = ", ".join(arrays) or "none"
    for name, array in arrays.items():
        first, *words = name.split("_")
        part = words.pop() if words and words[-1] in ("train", "test") else ""
        kind = _KINDS.get(first)
        if kind is None:
            raise fail("A1102", f"{source_name} has the arrays {listing}", None, _HINT)
        if array.ndim == 0 or len(array) == 0:
            raise fail("A1102", f"{source_name}: `{name}` has 0 samples")
        inputs, targets = parts_by_name.setdefault(part, ({}, {}))
        if kind == "x":
            inputs["_".join(words) or "input"] = array
        else:
            labels = check_labels(f"{source_name}: `labels`", array) if name == "labels" else array
            targets["_".join(words) or "target"] = labels
    part_names = ("train", "test") if "test" in parts_by_name else ("train",) if "train" in parts_by_name else ("",)
    if set(parts_by_name) != set(part_names) or any(not inputs for inputs, _ in parts_by_name.values()):
        raise fail("A1102", f"{source_name} has the arrays {listing}", None, _HINT)
    parts = [Part(*parts_by_name[name]) for name in part_names]
    names = [(sorted(part.inputs), sorted(part.targets)) for part in parts]
    if names[0] != names[-1]:
        first, second = (", ".join(f"`{name}`" for group in column_names for name in group) for column_names in names)
        text = f"{source_name} has {first} to train on, and {second} to test on"
        raise fail("A1102", text, None, "both parts have the same inputs and targets")
    return Source.of(parts, classes_of(*parts, are_labels="labels" in arrays))
