"""The operations, one family a file. Importing this package declares them all."""

from archir.ops import activation, arithmetic, attention, calibration, conv, norm, pool, random, shape

__all__ = ["activation", "arithmetic", "attention", "calibration", "conv", "norm", "pool", "random", "shape"]
