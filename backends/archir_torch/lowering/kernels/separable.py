"""Depthwise convolution fused with the pointwise convolution after it; the map between them is never stored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.depthwise import Geometry
from archir_torch.lowering.kernels.functions import apply_function, first_order
from archir_torch.lowering.kernels.library import call_kernel, empty_map, to_channels_last
from archir_torch.lowering.kernels.norm import NO_NORM, DeferredGradient, Norm

MAX_CHANNELS = 256
"""Maximum number of channels of the fused kernel.

With more channels, the matrix product dominates, which other libraries compute faster.
"""


def separable(
    x: Tensor, norm: Norm | None, activation: int, deferred: DeferredGradient | None, filter: Tensor,
    geometry: Geometry,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, DeferredGradient]:  # fmt: skip
    """Convolve activation(norm(x)) with depthwise filters, then with pointwise filters.

    The filters have the shapes [C, 1, h, w] and [outputs, C, 1, 1]. Returns the result, its mean and variance
    [outputs], and the `DeferredGradient` that a norm after this operation may use; the argument `deferred` is the
    `DeferredGradient` of the norm before this operation.
    """
    norm, output_deferred = norm or NO_NORM, DeferredGradient()
    norm_arguments = norm.weight, norm.bias, norm.mean, norm.inverse, activation
    y, mean, variance = apply_function(
        _Separable, x, filter, weight, *norm_arguments, geometry, deferred, output_deferred
    )
    return y, mean, variance, output_deferred


class _Separable(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, filter: Tensor, pointwise: Tensor, weight: Tensor | None, bias: Tensor | None,
        mean: Tensor, inverse: Tensor, activation: int, geometry: Geometry, deferred: DeferredGradient | None,
        output_deferred: DeferredGradient,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        ctx.settings = activation, geometry, deferred, output_deferred
        outputs = pointwise.shape[0]
        y = empty_map((geometry[0], outputs, geometry[4], geometry[5]), x)
        mean_of_y, variance = x.new_empty(2, outputs).unbind()
        norm = mean, inverse, weight, bias
        call_kernel(
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
        activation, geometry, deferred, output_deferred = ctx.settings
        needed = ctx.needs_input_grad
        to_x = empty_map(x.shape, x) if needed[0] or needed[3] or needed[4] else None
        to_filter = torch.empty_like(filter) if needed[1] else None
        to_pointwise = torch.empty_like(pointwise) if needed[2] else None
        to_weight = torch.empty_like(weight) if needed[3] else None
        to_bias = torch.empty_like(bias) if needed[4] else None
        coefficients = output_deferred.take(gradient)
        input_coefficients = (
            deferred.allocate(to_x) if deferred is not None and needed[0] and to_x is not None else None
        )
        call_kernel(
            "separable_backward", x.dtype, (to_channels_last(gradient), y if coefficients is not None else None,
            coefficients),
            x, geometry, (mean, inverse, weight, bias), activation, filter, pointwise, pointwise.shape[0], to_x,
            to_filter, to_pointwise, to_weight, to_bias, input_coefficients,
        )  # fmt: skip
        return to_x, to_filter, to_pointwise, to_weight, to_bias, None, None, None, None, None, None
