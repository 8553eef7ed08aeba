"""Maps of other sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import resize as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Resize)
def resize(
    x: Tensor, *, size: int | tuple[int, ...] | None, ratio: tuple[int, int], mode: str, align_corners: bool,
    antialias: bool,
) -> Tensor:  # fmt: skip
    before = x.shape[2:]
    if size is None:
        size = tuple(length * ratio[0] // ratio[1] for length in before)
    sizes = (size,) * len(before) if isinstance(size, int) else size
    if mode == "nearest":
        places = [torch.arange(n, device=x.device) * m // n for n, m in zip(sizes, before, strict=True)]
        each = [one.view(-1, *[1] * (len(places) - 1 - axis)) for axis, one in enumerate(places)]
        return x[:, :, *each]  # type: ignore[index]  # mypy joins tensors and slices to objects
    mode = "trilinear" if len(before) == 3 else mode
    return F.interpolate(x, sizes, mode=mode, align_corners=align_corners, antialias=antialias)


@lowers(ops.PixelShuffle)
def pixel_shuffle(x: Tensor, *, factor: int) -> Tensor:
    return F.pixel_shuffle(x, factor)


@lowers(ops.PixelUnshuffle)
def pixel_unshuffle(x: Tensor, *, factor: int) -> Tensor:
    return F.pixel_unshuffle(x, factor)
