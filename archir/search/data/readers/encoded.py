"""Image files, decoded when they are asked for."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archir.base.errors import fail

_LARGEST = 1 << 26

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

        def put(place: int) -> None:
            images[place] = decoded(*files[place], self.size)

        with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as threads:
            warnings.simplefilter("ignore")  # of oddities: what cannot be decoded raises
            list(threads.map(put, files))
        return images


def decoded(name: str, content: bytes, size: tuple[int, int, int]) -> NDArray[np.uint8]:
    """An image file as uint8 [C, H, W], as large as it is wanted. Raises ArchError (A1104)."""
    from PIL import Image

    channels, height, width = size
    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.width * image.height > _LARGEST:
                raise fail("A1104", f"{name} claims to be an image of {image.width} x {image.height} pixels")
            resized = image.convert("RGB" if channels == 3 else "L").resize((width, height), Image.Resampling.BILINEAR)
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, OverflowError, Image.DecompressionBombError) as e:
        raise fail("A1104", f"{name} is no image that can be read: {e}") from None
    pixels: NDArray[np.uint8] = np.array(resized)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


Raw = NDArray[np.uint8] | NDArray[np.float32] | Encoded
"""Pixels [n, C, H, W] as a source has them: uint8, or float32 from 0 to 1."""
