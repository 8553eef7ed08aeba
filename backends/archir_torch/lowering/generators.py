"""Seeded random generators of torch, a separate one for each purpose."""

from __future__ import annotations

import torch

from archir.utils.seeds import derive_seed


def seeded_generator(*parts: int | str) -> torch.Generator:
    """Return a CPU generator whose seed is derived from all arguments (see `archir.utils.seeds`)."""
    return torch.Generator().manual_seed(derive_seed(*parts))
