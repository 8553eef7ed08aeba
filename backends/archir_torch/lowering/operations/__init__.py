"""Lowerings, one family a file, mirroring `archir.ops`. Importing this package registers them all."""

from archir_torch.lowering.operations import (
    activation,
    arithmetic,
    attention,
    calibration,
    conv,
    norm,
    pool,
    random,
    shape,
)

__all__ = ["activation", "arithmetic", "attention", "calibration", "conv", "norm", "pool", "random", "shape"]
