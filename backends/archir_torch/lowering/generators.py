"""Seeded random generators of torch, a separate one for each purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from archir.utils.seeds import derive_seed


def seeded_generator(*parts: int | str) -> torch.Generator:
    """Return a CPU generator whose seed is derived from all arguments (see `archir.utils.seeds`)."""
    return torch.Generator().manual_seed(derive_seed(*parts))


@contextmanager
def seeded_noise(device: str, *parts: int | str) -> Iterator[None]:
    """Context manager in which dropout and drop path draw the same numbers in each evaluation with the same arguments.

    They draw from torch's own generators, whose states are restored at the end.
    """
    on_gpu = device.startswith("cuda") and torch.cuda.is_initialized()
    with torch.random.fork_rng([torch.device(device)] if on_gpu else []):
        seed = derive_seed(*parts)
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
