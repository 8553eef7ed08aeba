"""Image files, decoded when they are asked for."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import fail

_LARGEST = 1 << 26
SHARES = 2 * (os.cpu_count() or 1)
"""Parts of a batch that threads take: to hand over single images takes as long as to decode small ones."""

Fetch = Callable[[int], tuple[str, bytes]]
"""What an image of a row is called, and its file's content."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Images of a source, decoded to uint8 [C, H, W]. Raises ArchError (A1104) for one that cannot be."""

    fetch: Fetch
    count: int
    size: tuple[int, int, int]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        numbers = rows.tolist()
        ascending = sorted(range(len(numbers)), key=numbers.__getitem__)  # sources are read forwards
        files = {place: self.fetch(numbers[place]) for place in ascending}
        images = np.empty((len(numbers), *self.size), np.uint8)

        def put(share: list[int]) -> None:
            for place in share:
                images[place] = decoded(*files[place], self.size)

        places = list(files)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of oddities: what cannot be decoded raises
            shares = [places[begin::SHARES] for begin in range(min(SHARES, len(places)))]
            list(_threads().map(put, shares))
        return images


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads that decode; a process that was forked has none, and makes its own."""
    return ThreadPoolExecutor(os.cpu_count(), "decode")


os.register_at_fork(after_in_child=_threads.cache_clear)


def decoded(name: str, content: bytes, size: tuple[int, int, int]) -> NDArray[np.uint8]:
    """An image file as uint8 [C, H, W], as large as it is wanted. Raises ArchError (A1104)."""
    from PIL import Image

    channels, height, width = size
    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.width * image.height > _LARGEST:
                raise fail("A1104", f"{name} claims to be an image of {image.width} x {image.height} pixels")
            found: Image.Image = image
            if found.mode != (mode := "RGB" if channels == 3 else "L"):
                found = found.convert(mode)
            if found.size != (width, height):
                found = found.resize((width, height), Image.Resampling.BILINEAR)
            pixels = np.asarray(found)
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, OverflowError, Image.DecompressionBombError) as e:
        raise fail("A1104", f"{name} is no image that can be read: {e}") from None
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


Raw = NDArray[np.uint8] | NDArray[np.float32] | Encoded
"""Pixels [n, C, H, W] as a source has them: uint8, or float32 from 0 to 1."""
