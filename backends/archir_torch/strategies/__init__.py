"""Strategies that train, one a file. Importing this package registers them all."""

from archir_torch.strategies import darts, gdas, pc_darts, random, snas, train

__all__ = ["darts", "gdas", "pc_darts", "random", "snas", "train"]
