"""Strategies that train, one a file. Importing this package registers them all."""

from archir_torch.strategies import darts, fair, gdas, pc_darts, random, sandwich, snas, spos, train

__all__ = ["darts", "fair", "gdas", "pc_darts", "random", "sandwich", "snas", "spos", "train"]
