"""Local attention by shifting and accumulating: one pass over the map per offset in the window, without
unfolding.

Unfolding stores kernel^2 copies of keys and values for the forward and the backward pass. Here, each offset in the
window is a shifted view of the padded keys and values. Only the operands and the attention weights are saved for the
backward pass, which takes the shifted views again. On a CPU this takes a quarter of the time of unfolding for 7 x 7
windows on 32 x 32 maps with 64 channels. On small maps, where the overhead per operation dominates, unfolding is
faster and is used. Measurements: `benchmarks/results/local_attention_cpu.txt`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_UNFOLDED = 32_768
"""Maximum number of unfolded elements per sample for which unfolding is used.

Up to this number, unfolding is faster than shifting (measured on 2 CPU cores, batch size 64).
"""


class _Shifted(torch.autograd.Function):
    """Attention over a window: softmax of `query . shifted key + bias`, applied to the shifted values.

    query, key [B, C, H, W], value [B, D, H, W]; bias and mask [B, heads, kernel * kernel, H, W] or empty; result
    [B, D, H, W]. The softmax is multiplied by the mask.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, mask: Tensor, heads: int, kernel: int
    ) -> Tensor:
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
        kept = weights * mask if mask.numel() else weights
        result = torch.zeros_like(value.contiguous()).unflatten(1, (heads, -1))
        for offset in range(kernel * kernel):
            i, j = divmod(offset, kernel)
            shifted = values[:, :, i : i + height, j : j + width].unflatten(1, (heads, -1))
            result = torch.addcmul(result, kept[:, :, offset, None], shifted)
        ctx.save_for_backward(query, key, value, weights, mask)
        ctx.heads, ctx.kernel, ctx.biased = heads, kernel, bias.numel() > 0
        return result.flatten(1, 2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, mask = ctx.saved_tensors
        kept = weights * mask if mask.numel() else weights
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
            window.addcmul_(kept[:, :, offset, None], g)
        d_weights = d_weights * mask if mask.numel() else d_weights
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
        return d_query.flatten(1, 2), d_key, d_value, d_logits if ctx.biased else None, None, None, None


def offset_tables(rows: Tensor, columns: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """Expand the embeddings of row and column offsets to all channels: two tensors [channels, kernel].

    Row embeddings fill the first half of the channels and column embeddings the second half; all other entries are
    zero. `rows` and `columns` cover either all channels, or the channels of one head, in which case all heads share
    them.
    """
    half = rows.shape[0]
    zeros = rows.new_zeros(half + columns.shape[0], rows.shape[1])
    repeats = channels // zeros.shape[0]
    return torch.cat([rows, zeros[half:]]).repeat(repeats, 1), torch.cat([zeros[:half], columns]).repeat(repeats, 1)


def _offset_logits(query: Tensor, rows: Tensor, columns: Tensor, heads: int) -> Tensor:
    """Compute the dot products of queries and offset embeddings per head, [B, heads, kernel * kernel, H, W]."""
    batch, channels, height, width = query.shape
    kernel = rows.shape[1]
    by_row, by_column = (table.unflatten(0, (heads, -1)) for table in offset_tables(rows, columns, channels))
    q = query.unflatten(1, (heads, -1))
    row = torch.einsum("bhdyx,hdk->bhkyx", q, by_row.to(q.dtype))
    column = torch.einsum("bhdyx,hdk->bhkyx", q, by_column.to(q.dtype))
    return (row[:, :, :, None] + column[:, :, None]).reshape(batch, heads, kernel * kernel, height, width)


def _unfolded_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, mask: Tensor, heads: int, kernel: int
) -> Tensor:
    """Compute the same result as `_Shifted`, with keys and values unfolded into kernel * kernel copies."""
    height, width = query.shape[2:]
    keys, values = (F.unfold(x, kernel, padding=kernel // 2) for x in (key, value))
    keys, values = (x.unflatten(2, (height, width)).unflatten(1, (heads, -1, kernel * kernel)) for x in (keys, values))
    logits = (query.unflatten(1, (heads, -1)).unsqueeze(3) * keys).sum(2)
    weights = (logits + bias if bias.numel() else logits).softmax(2)
    weights = weights * mask if mask.numel() else weights
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
    dropout: float = 0.0,
    training: bool = False,
) -> Tensor:
    """Compute the attention of each pixel to the kernel x kernel window around it. Zero padding takes part in the
    softmax.

    query, key [B, C, H, W], value [B, D, H, W], rows [C // 2, kernel], columns [C - C // 2, kernel] -> [B, D, H, W].
    `rows` and `columns` are embeddings of offsets; if they have only C / heads channels in total, all heads share them.
    """
    query = query * scale if scale != 1.0 else query
    bias = query.new_empty(0)
    if rows is not None and columns is not None:
        bias = _offset_logits(query, rows, columns, heads)
    mask = query.new_empty(0)
    if training and dropout > 0:
        mask = F.dropout(query.new_ones(query.shape[0], heads, kernel**2, *query.shape[2:]), dropout)
    if query.shape[1:].numel() * kernel**2 <= MAX_UNFOLDED:
        return _unfolded_attention(query, key, value, bias, mask, heads, kernel)
    shifted: Callable[..., Tensor] = _Shifted.apply
    return shifted(query, key, value, bias, mask, heads, kernel)
