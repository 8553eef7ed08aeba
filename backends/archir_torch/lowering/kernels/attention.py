"""Attention of each pixel to the window around it, which keeps nothing for gradients but its operands."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.lowering.kernels.functions import applied, first_order
from archir_torch.lowering.kernels.library import call, empty, laid_out


def windowed(query: Tensor, key: Tensor, value: Tensor, table: Tensor | None, heads: int, kernel: int) -> Tensor:
    """softmax(query . (key + table)) of a window's keys, applied to its values; zeros around the map take part.

    query, key [N, C, H, W] and value [N, D, H, W] lie pixel by pixel; table [C, kernel * kernel]; result [N, D, H, W].
    """
    y: Tensor = applied(_Windowed, query, key, value, table, heads, kernel)
    return y


class _Windowed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, table: Tensor | None, heads: int, kernel: int
    ) -> Tensor:
        images, channels, height, width = query.shape
        ctx.sizes = images, height, width, heads, channels, value.shape[1], kernel
        ctx.save_for_backward(query, key, value, table)
        y = empty(value.shape, value)
        call("attention_forward", query.dtype, query, key, value, table, ctx.sizes, y)
        return y

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, table = ctx.saved_tensors
        found = [empty(x.shape, x) for x in (query, key, value)]
        to_table = torch.empty_like(table) if ctx.needs_input_grad[3] else None
        given = laid_out(gradient)
        call("attention_backward", query.dtype, given, query, key, value, table, ctx.sizes, *found, to_table)
        return *found, to_table, None, None
