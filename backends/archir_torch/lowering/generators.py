"""Generators of torch, by what they are for."""

from __future__ import annotations

import torch

from archir.utils.seeds import mixed


def generator(*parts: int | str) -> torch.Generator:
    """A generator on the CPU with the mixed seed (see `archir.utils.seeds.mixed`)."""
    return torch.Generator().manual_seed(mixed(*parts))
