"""1,797 images of handwritten digits, 8 x 8 pixels (E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY
4.0; see LICENSE.txt)."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from archir.data.readers.source import Source, image_part


def read() -> Source:
    """Return the digits as float32 [n, 1, 8, 8] in [0, 1] with labels; there is no held-out part."""
    with np.load(str(files("archir.data.readers.digits") / "digits.npz"), allow_pickle=False) as arrays:
        images = arrays["images"].astype(np.float32)[:, None] / np.float32(16)
        return Source(image_part(images, arrays["labels"].astype(np.int64)), None, tuple(map(str, range(10))))
