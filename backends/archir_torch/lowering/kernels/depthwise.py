"""Depthwise convolution of a feature map; a norm and an activation before it are applied while the map is read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.functions import apply_function, first_order
from archir_torch.lowering.kernels.library import call_kernel, empty_map, to_channels_last
from archir_torch.lowering.kernels.norm import NO_NORM, Norm

Geometry = tuple[int, ...]
"""Sizes of a windowed operation, in the field order of `Geometry` in `source/depthwise.h`.

They are: images, height, width, channels, output height, output width, filter height, filter width, stride, dilation,
rows of padding above, columns of padding on the left.
"""


def window_geometry(x: Tensor, kernel: tuple[int, int], stride: int, dilation: int, pads: tuple[int, ...]) -> Geometry:
    """Return the geometry of a filter applied to a map [N, C, H, W]; `pads` are left, right, top, bottom."""
    images, channels, height, width = x.shape
    left, right, top, bottom = pads
    out_height = (height + top + bottom - dilation * (kernel[0] - 1) - 1) // stride + 1
    out_width = (width + left + right - dilation * (kernel[1] - 1) - 1) // stride + 1
    return images, height, width, channels, out_height, out_width, *kernel, stride, dilation, top, left


def has_output(geometry: Geometry) -> bool:
    """Return True if the result has at least one pixel. Otherwise callers use torch's operation, which raises the
    error."""
    return min(result_shape(geometry)) > 0


def result_shape(geometry: Geometry) -> tuple[int, int, int, int]:
    """Return the shape [N, C, H, W] of the result."""
    return geometry[0], geometry[3], geometry[4], geometry[5]


def depthwise(x: Tensor, norm: Norm | None, activation: int, weight: Tensor, geometry: Geometry) -> Tensor:
    """Convolve activation(norm(x)), a channels-last map, with depthwise filters [C, 1, h, w]."""
    norm = norm or NO_NORM
    y: Tensor = apply_function(
        _Depthwise, x, weight, norm.weight, norm.bias, norm.mean, norm.inverse, activation, geometry
    )
    return y


class _Depthwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, filter: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor,
        inverse: Tensor, activation: int, geometry: Geometry,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(x, filter, weight, bias, mean, inverse)
        ctx.activation, ctx.geometry = activation, geometry
        y = empty_map(result_shape(geometry), x)
        call_kernel("depthwise_forward", x.dtype, x, geometry, (mean, inverse, weight, bias), activation, filter, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, filter, weight, bias, mean, inverse = ctx.saved_tensors
        needed = ctx.needs_input_grad
        # the kernel computes the gradients of the norm's weight and bias together with that of the map
        to_x = empty_map(x.shape, x) if needed[0] or needed[2] or needed[3] else None
        to_filter = torch.empty_like(filter) if needed[1] else None
        to_weight = torch.empty_like(weight) if needed[2] else None
        to_bias = torch.empty_like(bias) if needed[3] else None
        norm = mean, inverse, weight, bias
        call_kernel(
            "depthwise_backward", x.dtype, to_channels_last(gradient), x, ctx.geometry, norm, ctx.activation, filter,
            to_x,
            to_filter, to_weight, to_bias,
        )  # fmt: skip
        return to_x, to_filter, to_weight, to_bias, None, None, None, None
