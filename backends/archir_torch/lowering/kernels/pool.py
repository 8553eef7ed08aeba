"""Average and max pools, which keep nothing for gradients but what they read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.depthwise import Geometry, result_shape
from archir_torch.lowering.kernels.functions import applied, first_order
from archir_torch.lowering.kernels.library import call, empty, laid_out


def pooled(x: Tensor, geometry: Geometry, *, largest: bool, padded: bool = False) -> Tensor:
    """The largest, or the mean, of each window of a map that lies pixel by pixel; `padded`: zeros around it count."""
    y: Tensor = applied(_Pooled, x, geometry, largest, padded)
    return y


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, geometry: Geometry, largest: bool, padded: bool) -> Tensor:
        ctx.save_for_backward(x if largest else None)
        ctx.shape, ctx.settings = x.shape, (geometry, largest, padded)
        y = empty(result_shape(geometry), x)
        call("pool_forward", x.dtype, x, geometry, largest, padded, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        to_x = empty(ctx.shape, gradient)
        call("pool_backward", gradient.dtype, laid_out(gradient), x, *ctx.settings, to_x)
        return to_x, None, None, None
