"""Arrays in .npz files, and in folders of .npy files, which are memory-mapped."""

from __future__ import annotations

import math
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from archir.data.readers.arrays import source_of_arrays
from archir.data.readers.source import MAX_ARRAY_BYTES, MAX_COMPRESSION, UNCHECKED_BYTES, Source, read_error
from archir.utils.files import open_regular

MAX_ARRAYS = 1000
"""Maximum number of arrays in an .npz file."""
_DAMAGED = (OSError, ValueError, BadZipFile, EOFError, NotImplementedError, RuntimeError, KeyError, zlib.error)
"""Exceptions that numpy and zipfile raise for unreadable or corrupt files."""


def read(path: Path) -> Source:
    """Read an .npz file as a source.

    Raises ArchError: A1101 (it cannot be read), A1102 (its arrays have unexpected names or shapes).
    """
    return source_of_arrays(read_arrays(path), str(path))


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
                raise ValueError(f"`{member.filename}` is no array of numbers")
            if expected != member.file_size or expected > MAX_ARRAY_BYTES:
                raise ValueError(f"`{member.filename}` claims to hold {list(shape)} of {dtype}, but does not")
            bytes_left -= expected
            if bytes_left < 0:
                raise ValueError(f"its arrays are more than {MAX_COMPRESSION} times as large as the file")


def memory_mapped(path: Path) -> Source:
    """Read a folder of .npy files, named like the arrays in an .npz file, or a single .npy file of inputs;
    memory-mapped.

    Raises ArchError (A1101, A1102).
    """
    files = sorted(path.glob("*.npy")) if path.is_dir() else [path]
    arrays_by_name = {}
    for file in files:
        try:
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        except _DAMAGED as error:
            raise read_error(file, error) from None
        arrays_by_name[file.stem if path.is_dir() else "x"] = array
    return source_of_arrays(arrays_by_name, str(path))


def has_files(folder: Path) -> bool:
    """Return True if a folder contains .npy files."""
    return any(folder.glob("*.npy"))
