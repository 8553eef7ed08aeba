"""A depthwise convolution and a pointwise one behind it: what is between them is neither written nor kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.depthwise import Geometry
from archir_torch.lowering.kernels.functions import applied, first_order
from archir_torch.lowering.kernels.library import call, empty, laid_out
from archir_torch.lowering.kernels.norm import NOTHING, Handed, Norm

MOST_CHANNELS = 256
"""Behind more, products take so long that what is between need not be spared, and libraries have faster ones."""


def separable(
    x: Tensor, norm: Norm | None, activation: int, handed: Handed | None, filter: Tensor, geometry: Geometry,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Handed]:  # fmt: skip
    """What two convolutions, of filters [C, 1, h, w] and [outputs, C, 1, 1], make of activation(norm(x)).

    Also its mean and variance [outputs], and what the norm behind it may hand its gradient to; `handed` is that of x.
    """
    norm, own = norm or NOTHING, Handed()
    before = norm.weight, norm.bias, norm.mean, norm.inverse, activation
    y, mean, variance = applied(_Separable, x, filter, weight, *before, geometry, handed, own)
    return y, mean, variance, own


class _Separable(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, filter: Tensor, pointwise: Tensor, weight: Tensor | None, bias: Tensor | None,
        mean: Tensor, inverse: Tensor, activation: int, geometry: Geometry, handed: Handed | None, own: Handed,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        ctx.settings = activation, geometry, handed, own
        outputs = pointwise.shape[0]
        y = empty((geometry[0], outputs, geometry[4], geometry[5]), x)
        mean_of_y, variance = x.new_empty(2, outputs).unbind()
        norm = mean, inverse, weight, bias
        call(
            "separable_forward",
            x.dtype,
            x,
            geometry,
            norm,
            activation,
            filter,
            pointwise,
            outputs,
            y,
            mean_of_y,
            variance,
        )
        ctx.save_for_backward(x, filter, pointwise, weight, bias, mean, inverse, y)
        ctx.mark_non_differentiable(mean_of_y, variance)
        return y, mean_of_y, variance

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, filter, pointwise, weight, bias, mean, inverse, y = ctx.saved_tensors
        activation, geometry, handed, own = ctx.settings
        wants = ctx.needs_input_grad
        to_x = empty(x.shape, x) if wants[0] or wants[3] or wants[4] else None
        to_filter = torch.empty_like(filter) if wants[1] else None
        to_pointwise = torch.empty_like(pointwise) if wants[2] else None
        to_weight = torch.empty_like(weight) if wants[3] else None
        to_bias = torch.empty_like(bias) if wants[4] else None
        coefficients = own.taken(gradient)
        passed_on = handed.offered(to_x) if handed is not None and wants[0] and to_x is not None else None
        call(
            "separable_backward", x.dtype, (laid_out(gradient), y if coefficients is not None else None, coefficients),
            x, geometry, (mean, inverse, weight, bias), activation, filter, pointwise, pointwise.shape[0], to_x,
            to_filter, to_pointwise, to_weight, to_bias, passed_on,
        )  # fmt: skip
        return to_x, to_filter, to_pointwise, to_weight, to_bias, None, None, None, None, None, None
