"""Maps of other sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import ints, operator


@operator("DepthToSpace")
def depth_to_space(x: Tensor, blocksize: int, mode: str = "DCR", **_: Any) -> Tensor:
    """Channels as pixels."""
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    b, c, h, w = x.shape
    x = x.reshape(b, blocksize, blocksize, c // blocksize**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(b, c // blocksize**2, h * blocksize, w * blocksize)


@operator("Resize", "Upsample")
def resize(
    x: Tensor, *more: Any, named: str = "Resize", mode: str = "nearest", version: int = 13, **given: Any
) -> Tensor:
    """A map of another size."""
    scales: Any = given.get("scales")
    sizes: Any = None
    if named == "Upsample" or version < 11:
        scales = more[0] if more else scales
    else:
        scales, sizes = (more[1] if len(more) > 1 else None), (more[2] if len(more) > 2 else None)
    if sizes is not None and np.size(sizes):
        target = ints(sizes)[2:]
    else:
        target = [int(np.floor(size * float(s))) for size, s in zip(x.shape[2:], np.asarray(scales)[2:], strict=True)]
    way = given.get("coordinate_transformation_mode", "half_pixel" if version >= 11 else "asymmetric")
    if mode == "nearest":
        whole = all(wanted % size == 0 for wanted, size in zip(target, x.shape[2:], strict=True))
        floors = way == "asymmetric" and given.get("nearest_mode", "round_prefer_floor") == "floor"
        if not whole and not floors and version >= 11:
            raise RuleError("pixels that are repeated unevenly")
        return F.interpolate(x, target, mode="nearest")
    kinds = {"linear": "bilinear", "cubic": "bicubic"}
    if mode not in kinds or way not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        raise RuleError(f"interpolation: {mode}, {way}")
    return F.interpolate(x, target, mode=kinds[mode], align_corners=way == "align_corners")
