"""Maps of other sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import resize as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Resize)
def resize(
    x: Tensor, *, sizes: tuple[int, ...] | None, ratio: tuple[int, int], mode: str, align_corners: bool, antialias: bool
) -> Tensor:
    if sizes is None:
        sizes = (x.shape[2] * ratio[0] // ratio[1], x.shape[3] * ratio[0] // ratio[1])
    if mode == "nearest":
        rows = torch.arange(sizes[0], device=x.device) * x.shape[2] // sizes[0]
        columns = torch.arange(sizes[1], device=x.device) * x.shape[3] // sizes[1]
        return x[:, :, rows[:, None], columns]
    return F.interpolate(x, sizes, mode=mode, align_corners=align_corners, antialias=antialias)


@lowers(ops.PixelShuffle)
def pixel_shuffle(x: Tensor, *, factor: int) -> Tensor:
    return F.pixel_shuffle(x, factor)


@lowers(ops.PixelUnshuffle)
def pixel_unshuffle(x: Tensor, *, factor: int) -> Tensor:
    return F.pixel_unshuffle(x, factor)
