"""Seeds derived from a seed and a purpose, and reproducible permutations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def derive_seed(*parts: int | str) -> int:
    """Return a 63-bit seed that is a hash of a seed and a purpose, as in `derive_seed(seed, "order", epoch)`.

    The derived seed is the same on every machine.
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def permutation_stream(seed: int) -> Callable[[int], NDArray[np.int64]]:
    """Return a function that maps n to the next random permutation of 0 to n - 1.

    The permutations equal those of `torch.randperm` on the CPU: Mersenne Twister, seeded with the lowest 32 bits of
    `seed`, and a Fisher-Yates shuffle. They are implemented here so that data splits do not depend on the installed
    version of torch.
    """
    generator = np.random.RandomState(seed & 0xFFFFFFFF)

    def draw(count: int) -> NDArray[np.int64]:
        sizes = np.arange(count, 1, -1)
        steps = generator.randint(0, 1 << 32, len(sizes), np.uint32).astype(np.int64) % sizes
        order = list(range(count))
        for i, step in enumerate(steps.tolist()):
            order[i], order[i + step] = order[i + step], order[i]
        return np.array(order, np.int64)

    return draw
