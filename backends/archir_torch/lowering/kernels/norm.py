"""Batch norm in training mode (statistics of the batch), with the activation after it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from archir_torch.lowering.kernels.functions import apply_function, first_order
from archir_torch.lowering.kernels.library import call_kernel, empty_map, to_channels_last

NONE, RELU, RELU6, HARD_SWISH = range(4)
"""Integer codes of the activations, as in `source/activations.h`."""


class Norm(NamedTuple):
    """Parameters of a batch norm: statistics of the batch [C], through which gradients flow, weight and bias.

    If the statistics are missing, x is passed through unchanged.
    """

    mean: Tensor | None
    inverse: Tensor | None
    """Reciprocal of the standard deviation, [C]."""
    weight: Tensor | None
    bias: Tensor | None


class DeferredGradient:
    """Coefficients that pass part of a norm's gradient from its consumer to the producer of its input.

    A gradient can be deferred if the norm is the only consumer of its input y. The gradient of y is a + b g + c y,
    with the gradient g of the norm's output and coefficients a, b and c per channel. The norm's consumer hands g to
    the producer of y as if g were the gradient of y, and the coefficients through this object. The producer computes
    the sum while it reads g, so that the sum is never stored.
    """

    __slots__ = ("coefficients", "gradient_address")

    def __init__(self) -> None:
        self.coefficients: Tensor | None = None
        self.gradient_address = 0

    def allocate(self, gradient: Tensor) -> Tensor:
        """Return a new tensor [3, C] for the coefficients that complete the gradient g of the norm's output."""
        self.coefficients, self.gradient_address = gradient.new_empty(3, gradient.shape[1]), gradient.data_ptr()
        return self.coefficients

    def take(self, gradient: Tensor) -> Tensor | None:
        """Return the coefficients that complete a gradient, and forget them.

        Returns None if the gradient is complete already. Raises RuntimeError if the coefficients belong to another
        tensor, which means that the norm was not the only consumer.
        """
        coefficients, self.coefficients = self.coefficients, None
        if coefficients is not None and gradient.data_ptr() != self.gradient_address:
            raise RuntimeError("the input of a norm that defers its gradient was read by another operation, too")
        return coefficients


NO_NORM = Norm(None, None, None, None)
"""Placeholder for a missing norm: x is passed through unchanged."""


def norm_of_batch(
    x: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None,
    eps: float, momentum: float,
) -> Norm:  # fmt: skip
    """Return the batch norm of a channels-last map with the map's own statistics, and update the running statistics."""
    channels = x.shape[1]
    mean, inverse = x.new_empty(2, channels).unbind()
    call_kernel(
        "moments", x.dtype, x, x.numel() // channels, channels, eps, momentum, mean, inverse, running_mean, running_var
    )
    return Norm(mean, inverse, weight, bias)


def norm_from_statistics(
    mean: Tensor, variance: Tensor, pixels: int, running_mean: Tensor, running_var: Tensor, weight: Tensor | None,
    bias: Tensor | None, eps: float, momentum: float,
) -> Norm:  # fmt: skip
    """Return the batch norm of a map with this mean and variance, and update the running statistics."""
    inverse = torch.empty_like(mean)
    running = running_mean, running_var
    call_kernel("statistics", mean.dtype, mean, variance, pixels, len(mean), eps, momentum, inverse, *running)
    return Norm(mean, inverse, weight, bias)


def apply_norm(x: Tensor, norm: Norm | None, activation: int) -> Tensor:
    """Compute activation(norm(x))."""
    if norm is None and activation == NONE:
        return x
    norm = norm or NO_NORM
    y: Tensor = apply_function(_ApplyNorm, x, norm.weight, norm.bias, norm.mean, norm.inverse, activation)
    return y


class _ApplyNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, inverse: Tensor, activation: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias, mean, inverse)
        ctx.activation = activation
        y = empty_map(x.shape, x)
        call_kernel("norm_forward", x.dtype, x, *_size(x), (mean, inverse, weight, bias), activation, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, inverse = ctx.saved_tensors
        to_x = empty_map(x.shape, x) if ctx.needs_input_grad[0] else None
        to_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        to_bias = torch.empty_like(bias) if ctx.needs_input_grad[2] else None
        norm = mean, inverse, weight, bias
        gradient = to_channels_last(gradient)
        call_kernel("norm_backward", x.dtype, gradient, x, *_size(x), norm, ctx.activation, to_x, to_weight, to_bias)
        return to_x, to_weight, to_bias, None, None, None


def _size(x: Tensor) -> tuple[int, int]:
    """Return the number of pixels over all images, and the number of channels."""
    return x.numel() // x.shape[1], x.shape[1]
