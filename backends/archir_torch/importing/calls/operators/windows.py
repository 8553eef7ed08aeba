"""Window geometry of ONNX convolutions and pools: strides, dilations and padding."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor


def window(
    x: Tensor, attributes: dict[str, Any], kernel: list[int]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return strides, dilations, padding before and padding after, each with one number per spatial axis."""
    axes = len(kernel)
    strides = attributes.get("strides") or [1] * axes
    dilations = attributes.get("dilations") or [1] * axes
    pads = attributes.get("pads") or [0] * 2 * axes
    before, after = pads[:axes], pads[axes:]
    auto = attributes.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
            zeros = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
            less, more = zeros // 2, zeros - zeros // 2
            before.append(less if auto == "SAME_UPPER" else more)
            after.append(more if auto == "SAME_UPPER" else less)
    elif auto == "VALID":
        before = after = [0] * axes
    return strides, dilations, before, after


def pad_axes(x: Tensor, before: list[int], after: list[int], value: float = 0.0) -> Tensor:
    """Pad the last axes with a constant, by `before` and `after` positions per axis."""
    flat = [size for pair in zip(before[::-1], after[::-1], strict=True) for size in pair]
    return F.pad(x, flat, value=value) if any(flat) else x
