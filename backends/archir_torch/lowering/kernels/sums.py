"""Weighted sums of maps and of batch-normalised maps: one pass over memory, and two for the gradients of all
terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from archir_torch.lowering.kernels.functions import apply_function, first_order
from archir_torch.lowering.kernels.library import call_kernel, empty_map, to_channels_last
from archir_torch.lowering.kernels.norm import DeferredGradient, Norm


class Term(NamedTuple):
    """Term of a weighted sum: scale * norm(x). A missing `scale` is 1; a missing `norm` leaves x unchanged."""

    x: Tensor
    norm: Norm | None = None
    scale: Tensor | None = None
    deferred: DeferredGradient | None = None
    """Object through which the norm may defer its gradient to the producer of x."""


def weighted_sum(terms: Sequence[Term]) -> Tensor:
    """Compute the sum of terms. All maps have the same shape and are channels-last."""
    operands: list[Tensor | None] = []
    for x, norm, scale, _ in terms:
        operands += [x, *(norm or (None,) * 4), scale]
    y: Tensor = apply_function(_Sum, [item.deferred for item in terms], *operands)
    return y


_OPERANDS_PER_TERM = 6
"""Number of operands per term: map, mean, 1 / standard deviation, weight, bias, scale."""


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, deferred: Sequence[DeferredGradient | None], *operands: Tensor | None) -> Tensor:
        first = operands[0]
        assert first is not None
        y = empty_map(first.shape, first)
        ctx.shape, ctx.deferred = first.shape, deferred
        channels = first.shape[1]
        ctx.save_for_backward(*_saved_operands(operands, ctx.needs_input_grad[1:]))
        call_kernel(
            "sum_forward", y.dtype, operands, len(operands) // _OPERANDS_PER_TERM, y.numel() // channels, channels, y
        )
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        operands, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        gradient = to_channels_last(gradient)
        channels = ctx.shape[1]
        gradients: list[Tensor | None] = [None] * len(operands)
        targets: list[Tensor | None] = []
        sources: list[Tensor | None] = []
        for start, deferred in zip(range(0, len(operands), _OPERANDS_PER_TERM), ctx.deferred, strict=True):
            coefficients = None
            x, mean, _, weight, bias, scale = operands[start : start + _OPERANDS_PER_TERM]
            if needed[start] and mean is None and scale is None:
                gradients[start] = gradient
            elif needed[start] and deferred is not None:
                gradients[start], coefficients = gradient, deferred.allocate(gradient)
            elif needed[start]:
                gradients[start] = empty_map(ctx.shape, gradient)
            for position, operand in ((3, weight), (4, bias), (5, scale)):
                if needed[start + position]:
                    gradients[start + position] = torch.empty_like(operand)
            own = gradients[start : start + _OPERANDS_PER_TERM]
            targets += [None if own[0] is gradient else own[0], own[3], own[4], own[5], coefficients]
            sources += [x, *operands[start + 1 : start + _OPERANDS_PER_TERM]]
        call_kernel(
            "sum_backward", gradient.dtype, gradient, tuple(sources), tuple(targets),
            len(operands) // _OPERANDS_PER_TERM,
            gradient.numel() // channels, channels,
        )  # fmt: skip
        return None, *gradients


def _saved_operands(operands: Sequence[Tensor | None], needs_gradient: Sequence[bool]) -> list[Tensor | None]:
    """Return the operands to save for the backward pass; None for the maps of terms that have neither norm nor
    scale."""
    saved: list[Tensor | None] = []
    for start in range(0, len(operands), _OPERANDS_PER_TERM):
        term = operands[start : start + _OPERANDS_PER_TERM]
        is_needed = term[1] is not None or needs_gradient[start + 5]
        saved += [term[0] if is_needed else None, *term[1:]]
    return saved
