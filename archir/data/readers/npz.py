"""Arrays in .npz files, and in folders of .npy files, which stay on the disk until they are asked for."""

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

from archir.data.readers.arrays import arranged
from archir.data.readers.source import LARGEST, PACKED, SMALL, Source, unreadable
from archir.utils.files import reading

MOST_ARRAYS = 1000
_DAMAGED = (OSError, ValueError, BadZipFile, EOFError, NotImplementedError, RuntimeError, KeyError, zlib.error)


def read(path: Path) -> Source:
    """The parts of a file. Raises ArchError: A1101 (it cannot be read), A1102 (its arrays are of other forms)."""
    return arranged(arrays(path), str(path))


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name. Raises ArchError (A1101)."""
    try:
        with reading(path) as stream:
            _check(stream)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as held:
                return {name: held[name] for name in held.files}
    except _DAMAGED as error:
        raise unreadable(path, error) from None


def _check(stream: BinaryIO) -> None:
    """Arrays are as large as their headers say, before room is made for them. Raises ValueError."""
    left = max(SMALL, PACKED * stream.seek(0, os.SEEK_END))
    with ZipFile(stream) as archive:
        if len(archive.infolist()) > MOST_ARRAYS:
            raise ValueError(f"it holds more than {MOST_ARRAYS} arrays")
        for member in archive.infolist():
            with archive.open(member) as file:
                version = npy.read_magic(file)
                header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = header(file)
                claimed = file.tell() + math.prod(shape) * dtype.itemsize
            if dtype.hasobject or any(size < 0 for size in shape):
                raise ValueError(f"`{member.filename}` is no array of numbers")
            if claimed != member.file_size or claimed > LARGEST:
                raise ValueError(f"`{member.filename}` claims to hold {list(shape)} of {dtype}, but does not")
            left -= claimed
            if left < 0:
                raise ValueError(f"its arrays are more than {PACKED} times as large as the file")


def mapped(path: Path) -> Source:
    """A folder of .npy files named as arrays are, or one file of inputs. Raises ArchError (A1101, A1102)."""
    files = sorted(path.glob("*.npy")) if path.is_dir() else [path]
    found = {}
    for file in files:
        try:
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        except _DAMAGED as error:
            raise unreadable(file, error) from None
        found[file.stem if path.is_dir() else "x"] = array
    return arranged(found, str(path))


def present(folder: Path) -> bool:
    """Whether a folder holds .npy files."""
    return any(folder.glob("*.npy"))
