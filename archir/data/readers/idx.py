"""IDX files, the format of MNIST and similar data sets: four files in a folder, optionally gzipped.

A file starts with two zero bytes, the byte 8 for element type uint8, the number of dimensions, and each
dimension as big-endian uint32 (Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits").
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from contextlib import nullcontext
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Inputs
from archir.data.readers.source import (
    MAX_ARRAY_BYTES,
    MAX_COMPRESSION,
    UNCHECKED_BYTES,
    Source,
    check_labels,
    classes_of,
    existing_path,
    image_part,
    read_error,
    source,
)
from archir.diagnostics.errors import fail
from archir.utils.files import open_regular

_CHUNK_BYTES = 1 << 20
"""Size of the chunks in which files are read, in bytes."""


@source("idx")
def read(name: str, inputs: Inputs) -> Source:
    """Read a folder of IDX files.

    Raises ArchError: A1101 (a file is unreadable or corrupt), A1102 (numbers of images and labels differ).
    """
    folder = existing_path(name)
    parts = []
    for part in ("train", "t10k"):
        images, labels = _find(folder, f"{part}-images"), _find(folder, f"{part}-labels")
        x, y = _read_array(images, 3), _read_array(labels, 1)
        if len(x) != len(y) or 0 in x.shape:
            raise fail("A1102", f"{images} has shape {list(x.shape)}, and {labels} {len(y)} labels")
        parts.append(image_part(x[:, None], check_labels(str(labels), y)))
    return Source.of(parts, classes_of(*parts, are_labels=True))


def _find(folder: Path, name: str) -> Path:
    files = sorted(folder.glob(f"{name}*-ubyte")) or sorted(folder.glob(f"{name}*-ubyte.gz"))
    if not files:
        hint = "IDX files are train-images-idx3-ubyte, train-labels-idx1-ubyte, and the same with t10k, maybe with .gz"
        raise fail("A1101", f"there is no {name}-idx*-ubyte in {folder}", None, hint)
    return files[0]


def _read_array(path: Path, rank: int) -> NDArray[Any]:
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


def _read_exactly(file: BufferedIOBase, count: int) -> bytearray:
    """Read exactly `count` bytes. Raises EOFError if the file is shorter.

    It reads in chunks, so that a corrupt header cannot make archir allocate much more memory than the file has
    bytes.
    """
    content = bytearray()
    while len(content) < count:
        chunk = file.read(min(_CHUNK_BYTES, count - len(content)))
        if not chunk:
            raise EOFError(f"it ends {count - len(content):,} bytes early")
        content += chunk
    return content
