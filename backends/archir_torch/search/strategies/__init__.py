"""Strategies that train, one a file, and those that try candidates. Importing this package registers them all."""

from archir_torch.search.strategies import (
    darts,
    fair,
    finalists,
    gdas,
    inherit,
    pc_darts,
    sandwich,
    snas,
    spos,
    train,
    trials,
)

__all__ = ["darts", "fair", "finalists", "gdas", "inherit", "pc_darts", "sandwich", "snas", "spos", "train", "trials"]
