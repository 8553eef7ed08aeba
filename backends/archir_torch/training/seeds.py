"""Seeds that are functions of what they are for."""

from __future__ import annotations

import hashlib

import torch


def mixed(*parts: int | str) -> int:
    """A seed of 63 bits from a seed and what it is for: `mixed(seed, "order", epoch)`. The same on every machine."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A generator on the CPU with the mixed seed."""
    return torch.Generator().manual_seed(mixed(*parts))
