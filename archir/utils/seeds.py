"""Seeds that are functions of what they are for, and permutations that are functions of seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def mixed(*parts: int | str) -> int:
    """A seed of 63 bits from a seed and what it is for: `mixed(seed, "order", epoch)`. The same on every machine."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def permutations(seed: int) -> Callable[[int], NDArray[np.int64]]:
    """A function that gives permutations of 0 to n - 1, one after the other: those of `torch.randperm` on the CPU.

    The Mersenne Twister with the lowest 32 bits of the seed, and the shuffle of Fisher and Yates: runs of any age have
    the same splits, whatever is installed.
    """
    numbers = np.random.RandomState(seed & 0xFFFFFFFF)

    def draw(count: int) -> NDArray[np.int64]:
        left = np.arange(count, 1, -1)
        steps = numbers.randint(0, 1 << 32, len(left), np.uint32).astype(np.int64) % left
        order = list(range(count))
        for place, step in enumerate(steps.tolist()):
            order[place], order[place + step] = order[place + step], order[place]
        return np.array(order, np.int64)

    return draw
