"""Noisy images of a square and a disc of random colours, with the class of every pixel."""

import numpy as np


def images(count=200, seed=0):
    """Return images [n, 3, 16, 16] of bytes, and masks [n, 16, 16] of 0, 1 (square) and 2 (disc)."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 70, (count, 3, 16, 16))
    masks = np.zeros((count, 16, 16), np.int64)
    rows, columns = np.mgrid[:16, :16]
    for image, mask in zip(pixels, masks, strict=True):
        (y, x), (v, u) = rng.integers(0, 10, 2), rng.integers(4, 12, 2)
        side, radius = rng.integers(4, 7), rng.integers(2, 5)
        mask[y : y + side, x : x + side] = 1
        mask[(rows - v) ** 2 + (columns - u) ** 2 <= radius**2] = 2
        for shape in (1, 2):
            image[:, mask == shape] = rng.integers(90, 256, 3)[:, None]
    return pixels.astype(np.uint8), masks
