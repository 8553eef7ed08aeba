"""Arrays in .npz files: `x_train`, `y_train`, `x_test`, `y_test`, or `images`, `labels`."""

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

from archir.base.errors import fail
from archir.base.files import reading
from archir.search.data.readers.source import LARGEST, PACKED, SMALL, Part, Source, labelled, numbered, unreadable

MOST_ARRAYS = 1000
_DAMAGED = (OSError, ValueError, BadZipFile, EOFError, NotImplementedError, RuntimeError, KeyError, zlib.error)


def read(path: Path) -> Source:
    """The parts of a file. Raises ArchError: A1101 (it cannot be read), A1102 (its arrays are of other forms)."""
    try:
        with reading(path) as stream:
            _check(stream)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as arrays:
                named = {name: arrays[name] for name in arrays.files}
    except _DAMAGED as error:
        raise unreadable(path, error) from None
    if {"x_train", "y_train", "x_test", "y_test"} <= named.keys():
        train, held_out = (_part(path, named, *pair) for pair in (("x_train", "y_train"), ("x_test", "y_test")))
        return Source(train, held_out, numbered(train.labels, held_out.labels))
    if {"images", "labels"} <= named.keys():
        whole = _part(path, named, "images", "labels")
        return Source(whole, None, numbered(whole.labels))
    hint = "it needs x_train, y_train, x_test and y_test, or images and labels"
    raise fail("A1102", f"{path} has the arrays {', '.join(named) or 'none'}", None, hint)


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


def _part(path: Path, arrays: dict[str, NDArray[Any]], images: str, labels: str) -> Part:
    x, y = arrays[images], arrays[labels]
    if x.ndim == 0 or y.ndim != 1 or len(x) != len(y) or len(x) == 0:
        raise fail(
            "A1102", f"{path}: `{images}` has {len(x) if x.ndim else 0} images, `{labels}` shape {list(y.shape)}"
        )
    numbers = labelled(f"{path}: `{labels}`", y)
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 3) or 0 in x.shape:
        hint = "images are [n, H, W], [n, H, W, C] or [n, C, H, W] with 1 or 3 channels"
        raise fail("A1102", f"{path}: `{images}` has shape {list(arrays[images].shape)}", None, hint)
    if not np.issubdtype(x.dtype, np.number) or np.issubdtype(x.dtype, np.complexfloating):
        raise fail("A1102", f"{path}: `{images}` must hold real numbers, got {x.dtype}")
    pixels: NDArray[Any] = np.ascontiguousarray(x, dtype=np.uint8 if x.dtype == np.uint8 else np.float32)
    if not np.isfinite(pixels).all():
        raise fail("A1102", f"{path}: `{images}` holds values that are not finite")
    return Part(pixels, numbers)
