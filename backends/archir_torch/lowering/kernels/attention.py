"""Windowed attention on feature maps that saves only its operands for the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.functions import apply_function, first_order
from archir_torch.lowering.kernels.library import call_kernel, empty_map, to_channels_last


def window_attention(
    query: Tensor, key: Tensor, value: Tensor, table: Tensor | None, heads: int, kernel: int
) -> Tensor:
    """Compute softmax(query . (key + table)) over the keys in the window around each pixel, applied to their values.

    Zero padding around the map takes part in the softmax. query, key [N, C, H, W] and value [N, D, H, W] are
    channels-last; table [C, kernel * kernel]; result [N, D, H, W].
    """
    y: Tensor = apply_function(_WindowAttention, query, key, value, table, heads, kernel)
    return y


class _WindowAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, table: Tensor | None, heads: int, kernel: int
    ) -> Tensor:
        images, channels, height, width = query.shape
        ctx.sizes = images, height, width, heads, channels, value.shape[1], kernel
        ctx.save_for_backward(query, key, value, table)
        y = empty_map(value.shape, value)
        call_kernel("attention_forward", query.dtype, query, key, value, table, ctx.sizes, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, table = ctx.saved_tensors
        gradients = [empty_map(x.shape, x) for x in (query, key, value)]
        to_table = torch.empty_like(table) if ctx.needs_input_grad[3] else None
        y_gradient = to_channels_last(gradient)
        call_kernel(
            "attention_backward", query.dtype, y_gradient, query, key, value, table, ctx.sizes, *gradients, to_table
        )
        return *gradients, to_table, None, None
