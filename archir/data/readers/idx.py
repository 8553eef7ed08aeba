"""IDX files, the format of MNIST and similar data sets: four files in a folder, optionally gzipped.

A file begins with two zero bytes, 8 for the element type uint8, the number of dimensions, and each dimension as a
big-endian uint32 (Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits").
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from archir.data.readers.source import (
    MAX_ARRAY_BYTES,
    MAX_COMPRESSION,
    UNCHECKED_BYTES,
    Source,
    check_labels,
    classes_of,
    image_part,
    read_error,
)
from archir.diagnostics.errors import fail
from archir.utils.files import open_regular

_PARTS = ("train", "t10k")
"""Prefixes of the file names of the training part and of the held-out part."""
_CHUNK_BYTES = 1 << 20
"""Number of bytes that are read at once."""


class _Readable(Protocol):
    """An open binary file."""

    def read(self, count: int, /) -> bytes:
        """Return at most `count` bytes; none at the end of the file."""


def read(folder: Path) -> Source:
    """Return the two parts of a folder of IDX files.

    Raises ArchError: A1101 (a file cannot be read, or is damaged), A1102 (images and labels do not match).
    """
    parts = []
    for part in _PARTS:
        images, labels = _find(folder, f"{part}-images"), _find(folder, f"{part}-labels")
        x, y = _read_array(images, 3), _read_array(labels, 1)
        if len(x) != len(y) or 0 in x.shape:
            raise fail("A1102", f"{images} has shape {list(x.shape)}, and {labels} {len(y)} labels")
        parts.append(image_part(x[:, None], check_labels(str(labels), y)))
    return Source(parts[0], parts[1], classes_of(*parts, are_labels=True))


def has_files(folder: Path) -> bool:
    """True if a folder holds IDX files."""
    return any(folder.glob("*-ubyte")) or any(folder.glob("*-ubyte.gz"))


def _find(folder: Path, name: str) -> Path:
    """Return the file of a folder whose name begins with `name`. Raises ArchError (A1101)."""
    files = sorted(folder.glob(f"{name}*-ubyte")) or sorted(folder.glob(f"{name}*-ubyte.gz"))
    if not files:
        hint = "IDX files are train-images-idx3-ubyte, train-labels-idx1-ubyte, and the same with t10k, maybe with .gz"
        raise fail("A1101", f"there is no {name}-idx*-ubyte in {folder}", None, hint)
    return files[0]


def _read_array(path: Path, rank: int) -> NDArray[Any]:
    """Read an IDX file with `rank` dimensions as a uint8 array. Raises ArchError (A1101)."""
    is_gzipped = path.suffix == ".gz"
    try:
        size = path.stat().st_size
        with open_regular(path) as raw, gzip.open(raw) if is_gzipped else nullcontext(raw) as file:
            magic = _read_exactly(file, 4)
            if magic[:2] != b"\0\0" or magic[2] != 8 or magic[3] != rank:
                raise ValueError(f"it begins with {magic.hex(' ')}, not with 00 00 08 0{rank}")
            shape = struct.unpack(f">{rank}I", _read_exactly(file, 4 * rank))
            if math.prod(shape) > min(
                MAX_ARRAY_BYTES, max(UNCHECKED_BYTES, MAX_COMPRESSION * size) if is_gzipped else size
            ):
                raise ValueError(f"it claims to hold {list(shape)} bytes, but is too small for them")
            content = _read_exactly(file, math.prod(shape))
            if file.read(1):
                raise ValueError(f"it holds more than the {list(shape)} bytes it claims to")
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise read_error(path, error) from None
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_exactly(file: _Readable, count: int) -> bytearray:
    """Read exactly `count` bytes in chunks, so that a false header cannot make archir allocate more memory than the
    file has.

    Raises EOFError if the file is too short.
    """
    content = bytearray()
    while len(content) < count:
        chunk = file.read(min(_CHUNK_BYTES, count - len(content)))
        if not chunk:
            raise EOFError(f"it ends {count - len(content):,} bytes early")
        content += chunk
    return content
