"""ONNX operators that resize feature maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import constant_ints, onnx_operator


@onnx_operator("DepthToSpace")
def depth_to_space(x: Tensor, blocksize: int, mode: str = "DCR", **_: Any) -> Tensor:
    """Rearrange groups of channels into blocks of pixels."""
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    b, c, h, w = x.shape
    x = x.reshape(b, blocksize, blocksize, c // blocksize**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(b, c // blocksize**2, h * blocksize, w * blocksize)


@onnx_operator("Resize", "Upsample")
def resize(
    x: Tensor, *operands: Any, named: str = "Resize", mode: str = "nearest", version: int = 13, **attributes: Any
) -> Tensor:
    """Resize a feature map to given sizes or by scale factors."""
    scales: Any = attributes.get("scales")
    sizes: Any = None
    if named == "Upsample" or version < 11:
        scales = operands[0] if operands else scales
    else:
        scales, sizes = (operands[1] if len(operands) > 1 else None), (operands[2] if len(operands) > 2 else None)
    if sizes is not None and np.size(sizes):
        target = constant_ints(sizes)[2:]
    else:
        target = [int(np.floor(size * float(s))) for size, s in zip(x.shape[2:], np.asarray(scales)[2:], strict=True)]
    transformation = attributes.get("coordinate_transformation_mode", "half_pixel" if version >= 11 else "asymmetric")
    if mode == "nearest":
        is_multiple = all(target_size % size == 0 for target_size, size in zip(target, x.shape[2:], strict=True))
        floors = transformation == "asymmetric" and attributes.get("nearest_mode", "round_prefer_floor") == "floor"
        if not is_multiple and not floors and version >= 11:
            raise RuleError("nearest-neighbour resizing by a fraction is supported only if it rounds down")
        return F.interpolate(x, target, mode="nearest")
    kinds = {"linear": "bilinear", "cubic": "bicubic"}
    if mode not in kinds or transformation not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        raise RuleError(f"interpolation by {mode} with {transformation} is not supported")
    return F.interpolate(x, target, mode=kinds[mode], align_corners=transformation == "align_corners")
