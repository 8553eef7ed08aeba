"""Batch norm with the statistics of the batch, and the activation behind it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from archir_torch.lowering.kernels.functions import applied, first_order
from archir_torch.lowering.kernels.library import call, empty, laid_out

NONE, RELU, RELU6, HARD_SWISH = range(4)
"""Activations, as `source/activations.h` numbers them."""


class Norm(NamedTuple):
    """Statistics of a map [C], which its gradient goes through, and a norm's weight and bias; no statistics where there
    is no norm."""

    mean: Tensor | None
    inverse: Tensor | None
    """1 / deviation"""
    weight: Tensor | None
    bias: Tensor | None


class Handed:
    """How a norm leaves the last part of its gradient to what made the map that it alone reads.

    The gradient of that map is first + second g + third y, with numbers for each channel. Whoever reads the norm gives
    g itself to the map's maker and the numbers here: the sum is made where it is used, and is never written.
    """

    __slots__ = ("coefficients", "gradient")

    def __init__(self) -> None:
        self.coefficients: Tensor | None = None
        self.gradient = 0

    def offered(self, gradient: Tensor) -> Tensor:
        """Where the numbers [3, C] are to be written, for a gradient g."""
        self.coefficients, self.gradient = gradient.new_empty(3, gradient.shape[1]), gradient.data_ptr()
        return self.coefficients

    def taken(self, gradient: Tensor) -> Tensor | None:
        """The numbers for a gradient that came; None, if it is what it says."""
        found, self.coefficients = self.coefficients, None
        if found is not None and gradient.data_ptr() != self.gradient:
            raise RuntimeError("a map whose norm hands on its gradient was read by something else, too")
        return found


NOTHING = Norm(None, None, None, None)


def measured(
    x: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None,
    eps: float, momentum: float,
) -> Norm:  # fmt: skip
    """The norm of a map that lies pixel by pixel; running statistics take it up."""
    channels = x.shape[1]
    mean, inverse = x.new_empty(2, channels).unbind()
    call(
        "moments", x.dtype, x, x.numel() // channels, channels, eps, momentum, mean, inverse, running_mean, running_var
    )
    return Norm(mean, inverse, weight, bias)


def known(
    mean: Tensor, variance: Tensor, pixels: int, running_mean: Tensor, running_var: Tensor, weight: Tensor | None,
    bias: Tensor | None, eps: float, momentum: float,
) -> Norm:  # fmt: skip
    """The norm of a map whose statistics are known."""
    inverse = torch.empty_like(mean)
    running = running_mean, running_var
    call("statistics", mean.dtype, mean, variance, pixels, len(mean), eps, momentum, inverse, *running)
    return Norm(mean, inverse, weight, bias)


def normed(x: Tensor, norm: Norm | None, activation: int) -> Tensor:
    """activation(norm(x))."""
    if norm is None and activation == NONE:
        return x
    norm = norm or NOTHING
    y: Tensor = applied(_Normed, x, norm.weight, norm.bias, norm.mean, norm.inverse, activation)
    return y


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, inverse: Tensor, activation: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias, mean, inverse)
        ctx.activation = activation
        y = empty(x.shape, x)
        call("norm_forward", x.dtype, x, *_size(x), (mean, inverse, weight, bias), activation, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, inverse = ctx.saved_tensors
        to_x = empty(x.shape, x) if ctx.needs_input_grad[0] else None
        to_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        to_bias = torch.empty_like(bias) if ctx.needs_input_grad[2] else None
        norm = mean, inverse, weight, bias
        gradient = laid_out(gradient)
        call("norm_backward", x.dtype, gradient, x, *_size(x), norm, ctx.activation, to_x, to_weight, to_bias)
        return to_x, to_weight, to_bias, None, None, None


def _size(x: Tensor) -> tuple[int, int]:
    return x.numel() // x.shape[1], x.shape[1]
