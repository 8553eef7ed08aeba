"""Lowering rules of operations that change the height and width of feature maps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import resize as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Resize)
def resize(
    x: Tensor,
    *,
    size: int | tuple[int, ...] | None,
    ratio: tuple[int, int],
    mode: str,
    align_corners: bool,
    antialias: bool = False,
) -> Tensor:
    axes = range(2, x.dim())
    if size is None:
        size = tuple(x.shape[axis] * ratio[0] // ratio[1] for axis in axes)
    sizes = (size,) * len(axes) if isinstance(size, int) else size
    if mode == "nearest":
        for axis, after in zip(axes, sizes, strict=True):
            x = x.index_select(axis, torch.arange(after, device=x.device) * x.shape[axis] // after)
        return x
    if antialias and sizes[-1] == 1:  # torch's kernel that resizes both axes at once is wrong for a width of 1
        x = F.interpolate(x, (sizes[0], x.shape[-1]), mode=mode, align_corners=align_corners, antialias=True)
    mode = "trilinear" if x.dim() == 5 else mode
    return F.interpolate(x, sizes, mode=mode, align_corners=align_corners, antialias=antialias)


@lowers(ops.PixelShuffle)
def pixel_shuffle(x: Tensor, *, factor: int) -> Tensor:
    return F.pixel_shuffle(x, factor)


@lowers(ops.PixelUnshuffle)
def pixel_unshuffle(x: Tensor, *, factor: int) -> Tensor:
    return F.pixel_unshuffle(x, factor)
