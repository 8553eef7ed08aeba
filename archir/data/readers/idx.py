"""IDX files, the format of MNIST and its relatives: four in a folder, maybe gzipped.

A file begins with two zero bytes, 8 for bytes, the number of dimensions, and each dimension as a big-endian uint32
(Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits").
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

from archir.data.readers.source import LARGEST, PACKED, SMALL, Source, classes_of, labelled, of_images, unreadable
from archir.diagnostics.errors import fail
from archir.utils.files import reading

_PARTS = ("train", "t10k")
_PIECE = 1 << 20


class _Readable(Protocol):
    """An open file."""

    def read(self, count: int, /) -> bytes:
        """At most so many bytes, none at the end."""


def read(folder: Path) -> Source:
    """The two parts of a folder. Raises ArchError: A1101 (a file cannot be read, or is damaged), A1102 (its form)."""
    parts = []
    for part in _PARTS:
        images, labels = _find(folder, f"{part}-images"), _find(folder, f"{part}-labels")
        x, y = _array(images, 3), _array(labels, 1)
        if len(x) != len(y) or 0 in x.shape:
            raise fail("A1102", f"{images} has shape {list(x.shape)}, and {labels} {len(y)} labels")
        parts.append(of_images(x[:, None], labelled(str(labels), y)))
    return Source(parts[0], parts[1], classes_of(*parts, certain=True))


def present(folder: Path) -> bool:
    """Whether a folder holds IDX files."""
    return any(folder.glob("*-ubyte")) or any(folder.glob("*-ubyte.gz"))


def _find(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"{name}*-ubyte")) or sorted(folder.glob(f"{name}*-ubyte.gz"))
    if not found:
        hint = "IDX files are train-images-idx3-ubyte, train-labels-idx1-ubyte, and the same with t10k, maybe with .gz"
        raise fail("A1101", f"there is no {name}-idx*-ubyte in {folder}", None, hint)
    return found[0]


def _array(path: Path, rank: int) -> NDArray[Any]:
    packed = path.suffix == ".gz"
    try:
        size = path.stat().st_size
        with reading(path) as raw, gzip.open(raw) if packed else nullcontext(raw) as file:
            magic = _exactly(file, 4)
            if magic[:2] != b"\0\0" or magic[2] != 8 or magic[3] != rank:
                raise ValueError(f"it begins with {magic.hex(' ')}, not with 00 00 08 0{rank}")
            shape = struct.unpack(f">{rank}I", _exactly(file, 4 * rank))
            if math.prod(shape) > min(LARGEST, max(SMALL, PACKED * size) if packed else size):
                raise ValueError(f"it claims to hold {list(shape)} bytes, but is too small for them")
            content = _exactly(file, math.prod(shape))
            if file.read(1):
                raise ValueError(f"it holds more than the {list(shape)} bytes it claims to")
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from None
    return np.frombuffer(content, np.uint8).reshape(shape)


def _exactly(file: _Readable, count: int) -> bytearray:
    """Bytes in pieces, so that no more room is made than there is content for. Raises EOFError."""
    content = bytearray()
    while len(content) < count:
        piece = file.read(min(_PIECE, count - len(content)))
        if not piece:
            raise EOFError(f"it ends {count - len(content):,} bytes early")
        content += piece
    return content
