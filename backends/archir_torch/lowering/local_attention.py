"""Local attention by shifting and accumulating: one pass over the map per offset of the window, without unfolding.

Unfolding holds kernel^2 copies of keys and values, for the forward and the backward pass. Here each offset of the
window is a shifted view of the padded keys and values. Only the operands and the attention weights are saved for the
backward pass, which computes the shifted views again. On a CPU this takes a quarter of the time at 7 x 7 windows on 32
x 32 maps of 64 channels. On maps so small that starting an operation costs more than running it, unfolding is faster
and is used. Measurements of each formulation: `benchmarks/results/local_attention_cpu.txt`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_UNFOLDED = 32_768
"""Maximum number of unfolded elements per sample up to which unfolding is faster (measured on 2 CPU cores, batch
64)."""


class _Shifted(torch.autograd.Function):
    """Softmax over a window of `logits + query . shifted key`, applied to the shifted values.

    query, key [B, C, H, W], value [B, D, H, W], bias [B, heads, kernel * kernel, H, W] or empty; result [B, D, H, W].
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, heads: int, kernel: int) -> Tensor:
        batch, _, height, width = query.shape
        pad = kernel // 2
        keys, values = F.pad(key, (pad,) * 4), F.pad(value, (pad,) * 4)
        q = query.unflatten(1, (heads, -1))
        logits = query.new_empty(batch, heads, kernel * kernel, height, width)
        for offset in range(kernel * kernel):
            i, j = divmod(offset, kernel)
            shifted = keys[:, :, i : i + height, j : j + width].unflatten(1, (heads, -1))
            logits[:, :, offset] = (q * shifted).sum(2)
        if bias.numel():
            logits = logits + bias
        weights = logits.softmax(2)
        result = torch.zeros_like(value.contiguous()).unflatten(1, (heads, -1))
        for offset in range(kernel * kernel):
            i, j = divmod(offset, kernel)
            shifted = values[:, :, i : i + height, j : j + width].unflatten(1, (heads, -1))
            result = torch.addcmul(result, weights[:, :, offset, None], shifted)
        ctx.save_for_backward(query, key, value, weights)
        ctx.heads, ctx.kernel, ctx.biased = heads, kernel, bias.numel() > 0
        return result.flatten(1, 2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights = ctx.saved_tensors
        heads, kernel = ctx.heads, ctx.kernel
        height, width = query.shape[2:]
        pad = kernel // 2
        keys, values = F.pad(key, (pad,) * 4), F.pad(value, (pad,) * 4)
        q, g = query.unflatten(1, (heads, -1)), gradient.unflatten(1, (heads, -1))
        d_weights = torch.empty_like(weights)
        d_values = torch.zeros_like(values)
        for offset in range(kernel * kernel):
            i, j = divmod(offset, kernel)
            shifted = values[:, :, i : i + height, j : j + width].unflatten(1, (heads, -1))
            d_weights[:, :, offset] = (g * shifted).sum(2)
            window = d_values[:, :, i : i + height, j : j + width].unflatten(1, (heads, -1))
            window.addcmul_(weights[:, :, offset, None], g)
        d_logits = weights * (d_weights - (weights * d_weights).sum(2, keepdim=True))
        d_query = torch.zeros_like(q)
        d_keys = torch.zeros_like(keys)
        for offset in range(kernel * kernel):
            i, j = divmod(offset, kernel)
            d_logit = d_logits[:, :, offset, None]
            d_query.addcmul_(d_logit, keys[:, :, i : i + height, j : j + width].unflatten(1, (heads, -1)))
            d_keys[:, :, i : i + height, j : j + width].unflatten(1, (heads, -1)).addcmul_(d_logit, q)
        inner = slice(pad, pad + height), slice(pad, pad + width)
        d_key, d_value = d_keys[:, :, inner[0], inner[1]], d_values[:, :, inner[0], inner[1]]
        return d_query.flatten(1, 2), d_key, d_value, d_logits if ctx.biased else None, None, None


def offset_tables(rows: Tensor, columns: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Expand the tables of row and column offsets to all channels: two tensors [channels, kernel].

    Rows apply to the first half of the channels and columns to the second half; the other entries are zero. `rows` and
    `columns` cover all channels, or those of one head, and are then repeated for each head.
    """
    half = rows.shape[0]
    zeros = rows.new_zeros(half + columns.shape[0], rows.shape[1])
    repeats = channels // zeros.shape[0]
    return torch.cat([rows, zeros[half:]]).repeat(repeats, 1), torch.cat([zeros[:half], columns]).repeat(repeats, 1)


def _offset_logits(query: Tensor, rows: Tensor, columns: Tensor, heads: int) -> Tensor:
    """Compute the products of queries and offset tables, [B, heads, kernel * kernel, H, W], each head over its own
    channels."""
    batch, channels, height, width = query.shape
    kernel = rows.shape[1]
    by_row, by_column = (table.unflatten(0, (heads, -1)) for table in offset_tables(rows, columns, channels))
    q = query.unflatten(1, (heads, -1))
    row = torch.einsum("bhdyx,hdk->bhkyx", q, by_row.to(q.dtype))
    column = torch.einsum("bhdyx,hdk->bhkyx", q, by_column.to(q.dtype))
    return (row[:, :, :, None] + column[:, :, None]).reshape(batch, heads, kernel * kernel, height, width)


def _unfolded_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, heads: int, kernel: int) -> Tensor:
    """Compute the same as `_Shifted` by unfolding keys and values into kernel * kernel copies."""
    height, width = query.shape[2:]
    keys, values = (F.unfold(x, kernel, padding=kernel // 2) for x in (key, value))
    keys, values = (x.unflatten(2, (height, width)).unflatten(1, (heads, -1, kernel * kernel)) for x in (keys, values))
    logits = (query.unflatten(1, (heads, -1)).unsqueeze(3) * keys).sum(2)
    weights = (logits + bias if bias.numel() else logits).softmax(2)
    return (weights.unsqueeze(2) * values).sum(3).flatten(1, 2)


def local_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    *,
    heads: int,
    kernel: int,
    scale: float = 1.0,
) -> Tensor:
    """Attention of each position to the kernel x kernel window around it; zero padding takes part in the softmax.

    query, key [B, C, H, W], value [B, D, H, W], rows [C // 2, kernel], columns [C - C // 2, kernel] -> [B, D, H, W].
    Tables with the C / heads channels of one head are shared by all heads.
    """
    query = query * scale if scale != 1.0 else query
    bias = query.new_empty(0)
    if rows is not None and columns is not None:
        bias = _offset_logits(query, rows, columns, heads)
    if query.shape[1:].numel() * kernel**2 <= MAX_UNFOLDED:
        return _unfolded_attention(query, key, value, bias, heads, kernel)
    shifted: Callable[..., Tensor] = _Shifted.apply
    return shifted(query, key, value, bias, heads, kernel)
