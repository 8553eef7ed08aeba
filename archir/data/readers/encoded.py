"""Encoded image files that are decoded on access."""

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

_MAX_PIXELS = 1 << 26
"""Maximum number of pixels of an image, according to its file header."""
CHUNKS = 2 * (os.cpu_count() or 1)
"""Number of chunks into which a batch of images is divided for the decoding threads.

Submitting images to threads one by one takes as long as decoding a small image.
"""

Fetch = Callable[[int], tuple[str, bytes]]
"""Maps a row number to the image's name (for messages) and its file content."""


@dataclass(frozen=True, eq=False)
class EncodedImages:
    """Lazy array of image files: indexing with row numbers decodes them to uint8 [n, C, H, W].

    `fetch` loads the file of a row, `count` is the number of images, and `size` is the [C, H, W] to which images
    are converted. Indexing raises ArchError (A1104) if a file cannot be decoded.
    """

    fetch: Fetch
    count: int
    size: tuple[int, int, int]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        numbers = rows.tolist()
        ascending = sorted(range(len(numbers)), key=numbers.__getitem__)  # read sources sequentially
        files = {position: self.fetch(numbers[position]) for position in ascending}
        images = np.empty((len(numbers), *self.size), np.uint8)

        def put(chunk: list[int]) -> None:
            """Decode one chunk of images into the batch."""
            for position in chunk:
                images[position] = decode_image(*files[position], self.size)

        positions = list(files)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about harmless oddities; real failures raise
            chunks = [positions[begin::CHUNKS] for begin in range(min(CHUNKS, len(positions)))]
            list(_threads().map(put, chunks))
        return images


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the decoding thread pool. A forked process creates its own, since threads do not survive a fork."""
    return ThreadPoolExecutor(os.cpu_count(), "decode")


os.register_at_fork(after_in_child=_threads.cache_clear)


def decode_image(name: str, content: bytes, size: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Decode an image file to uint8 [C, H, W], with bilinear resizing to `size`. Raises ArchError (A1104)."""
    from PIL import Image

    channels, height, width = size
    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise fail("A1104", f"{name} claims to be an image of {image.width} x {image.height} pixels")
            picture: Image.Image = image
            if picture.mode != (mode := "RGB" if channels == 3 else "L"):
                picture = picture.convert(mode)
            if picture.size != (width, height):
                picture = picture.resize((width, height), Image.Resampling.BILINEAR)
            pixels = np.asarray(picture)
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, OverflowError, Image.DecompressionBombError) as e:
        raise fail("A1104", f"{name} cannot be decoded as an image: {e}") from None
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


Raw = NDArray[np.uint8] | NDArray[np.float32] | EncodedImages
"""Input array [n, ...] of a source: uint8 pixels, float32 numbers (images in [0, 1]), or encoded image files."""
