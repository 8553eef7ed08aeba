"""Average and max pooling. Only max pooling saves its input for the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.depthwise import Geometry, result_shape
from archir_torch.lowering.kernels.functions import apply_function, first_order
from archir_torch.lowering.kernels.library import call_kernel, empty_map, to_channels_last


def pool_windows(x: Tensor, geometry: Geometry, *, is_max: bool, count_padding: bool = False) -> Tensor:
    """Return the maximum (`is_max`) or the mean of each window of a channels-last map.

    With `count_padding`, the zeros around the map count in the mean.
    """
    y: Tensor = apply_function(_Pool, x, geometry, is_max, count_padding)
    return y


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, geometry: Geometry, is_max: bool, count_padding: bool) -> Tensor:
        ctx.save_for_backward(x if is_max else None)
        ctx.shape, ctx.settings = x.shape, (geometry, is_max, count_padding)
        y = empty_map(result_shape(geometry), x)
        call_kernel("pool_forward", x.dtype, x, geometry, is_max, count_padding, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        to_x = empty_map(ctx.shape, gradient)
        call_kernel("pool_backward", gradient.dtype, to_channels_last(gradient), x, *ctx.settings, to_x)
        return to_x, None, None, None
