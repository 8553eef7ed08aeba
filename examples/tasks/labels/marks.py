"""Images with up to four marks: a horizontal bar, a vertical bar, a dot and a frame."""

import numpy as np


def images(count=400, seed=0):
    """Return images [n, 1, 12, 12] of bytes, and labels [n, 4] of zeros and ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, (count, 4))
    images = rng.integers(0, 60, (count, 1, 12, 12))
    for image, (across, down, dot, frame) in zip(images[:, 0], labels, strict=True):
        row, column = rng.integers(2, 9, 2)
        if across:
            image[row, 2:10] += 120
        if down:
            image[2:10, column] += 120
        if dot:
            image[row + 1 : row + 3, column + 1 : column + 3] = 250
        if frame:
            image[[0, -1]] = image[:, [0, -1]] = 180
    return images.clip(0, 255).astype(np.uint8), labels
