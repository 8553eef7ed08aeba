"""Image files, decoded when they are asked for."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from archir.base.errors import fail
from archir_torch.data.pixels import Chosen, Device, Pixels

KEPT = 1 << 30
"""Bytes up to which decoded images are kept, as uint8; of more, each is decoded again when it is asked for."""
_LARGEST = 1 << 26
_CHUNK = 1024

Fetch = Callable[[int], tuple[str, bytes]]
"""What an image of a row is called, and its file's content."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Images of a source, decoded to uint8 [C, H, W]. Raises ArchError (A1104) for one that cannot be."""

    fetch: Fetch
    count: int
    size: tuple[int, int, int]
    device: Device = "cpu"

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Tensor) -> Tensor:
        numbers = rows.tolist()
        ascending = sorted(range(len(numbers)), key=numbers.__getitem__)  # sources are read forwards
        files = {place: self.fetch(numbers[place]) for place in ascending}
        images = torch.empty(len(numbers), *self.size, dtype=torch.uint8)

        def put(place: int) -> None:
            images[place] = decoded(*files[place], self.size)

        with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as threads:
            warnings.simplefilter("ignore")  # of oddities: what cannot be decoded raises
            list(threads.map(put, files))
        if torch.device(self.device).type == "cuda":
            return images.pin_memory().to(self.device, non_blocking=True)
        return images.to(self.device)

    def to(self, device: Device) -> Encoded:
        """The same, given out on a device."""
        return replace(self, device=device)


def decoded(name: str, content: bytes, size: tuple[int, int, int]) -> Tensor:
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
    pixels = torch.from_numpy(np.array(resized))
    return pixels[None] if channels == 1 else pixels.permute(2, 0, 1)


Raw = Tensor | Encoded
"""Pixels as a source has them: uint8, or float32 from 0 to 1."""


def settled(pixels: Raw, rows: Tensor) -> Pixels:
    """Some rows of raw pixels; images of files are decoded once and kept, if there is room for all of them."""
    if isinstance(pixels, Tensor):
        return pixels[rows]
    channels, height, width = pixels.size
    if len(rows) * channels * height * width > KEPT:
        return Chosen(pixels, rows)
    return torch.cat([pixels[some] for some in rows.split(_CHUNK)])
