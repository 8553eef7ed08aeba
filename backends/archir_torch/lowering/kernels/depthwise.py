"""Depthwise convolutions of maps, or of activations and norms of maps, which are computed where they are read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.functions import applied, first_order
from archir_torch.lowering.kernels.library import call, empty, laid_out
from archir_torch.lowering.kernels.norm import NOTHING, Norm

Geometry = tuple[int, ...]
"""As `source/depthwise.h` has it: images, height, width, channels, height and width of the result, height and width of
the filter, stride, dilation, rows above and columns left of the map."""


def geometry(x: Tensor, kernel: tuple[int, int], stride: int, dilation: int, pads: tuple[int, ...]) -> Geometry:
    """The geometry of a filter over a map [N, C, H, W]; `pads` are left, right, top, bottom."""
    images, channels, height, width = x.shape
    left, right, top, bottom = pads
    out_height = (height + top + bottom - dilation * (kernel[0] - 1) - 1) // stride + 1
    out_width = (width + left + right - dilation * (kernel[1] - 1) - 1) // stride + 1
    return images, height, width, channels, out_height, out_width, *kernel, stride, dilation, top, left


def fits(geometry: Geometry) -> bool:
    """Whether there is a result: torch says of what is too small that it is."""
    return min(result_shape(geometry)) > 0


def result_shape(geometry: Geometry) -> tuple[int, int, int, int]:
    """[N, C, H, W] of the result."""
    return geometry[0], geometry[3], geometry[4], geometry[5]


def depthwise(x: Tensor, norm: Norm | None, activation: int, weight: Tensor, geometry: Geometry) -> Tensor:
    """The convolution of activation(norm(x)), which lies pixel by pixel, with filters [C, 1, h, w]."""
    norm = norm or NOTHING
    y: Tensor = applied(_Depthwise, x, weight, norm.weight, norm.bias, norm.mean, norm.inverse, activation, geometry)
    return y


class _Depthwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, filter: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor,
        inverse: Tensor, activation: int, geometry: Geometry,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(x, filter, weight, bias, mean, inverse)
        ctx.activation, ctx.geometry = activation, geometry
        y = empty(result_shape(geometry), x)
        call("depthwise_forward", x.dtype, x, geometry, (mean, inverse, weight, bias), activation, filter, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, filter, weight, bias, mean, inverse = ctx.saved_tensors
        wants = ctx.needs_input_grad
        # the sums for a norm's weight are made with the gradient of the map
        to_x = empty(x.shape, x) if wants[0] or wants[2] or wants[3] else None
        to_filter = torch.empty_like(filter) if wants[1] else None
        to_weight = torch.empty_like(weight) if wants[2] else None
        to_bias = torch.empty_like(bias) if wants[3] else None
        norm = mean, inverse, weight, bias
        call(
            "depthwise_backward", x.dtype, laid_out(gradient), x, ctx.geometry, norm, ctx.activation, filter, to_x,
            to_filter, to_weight, to_bias,
        )  # fmt: skip
        return to_x, to_filter, to_weight, to_bias, None, None, None, None
