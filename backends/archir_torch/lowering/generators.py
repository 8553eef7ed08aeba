"""Seeded random generators of torch, one per purpose."""

from __future__ import annotations

import torch

from archir.utils.seeds import derive_seed


def seeded_generator(*parts: int | str) -> torch.Generator:
    """Return a CPU generator seeded with a value derived from all parts (see `archir.utils.seeds`)."""
    return torch.Generator().manual_seed(derive_seed(*parts))
