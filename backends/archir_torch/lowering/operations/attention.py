"""Lowering rules of attention (without its projections) and of rotary position embeddings."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import attention as ops
from archir_torch.lowering.local_attention import local_attention
from archir_torch.lowering.rules import lowers


@lowers(ops.Attention)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    heads: int,
    scale: float | None,
    causal: bool = False,
    window: int | None = None,
    kv_heads: int | None = None,
    along: str = "all",
    dropout: float = 0.0,
    training: bool = False,
) -> Tensor:
    if along != "all":  # each row or column of the map becomes a sample of tokens
        axis = {"width": -1, "height": -2, "depth": -3}[along]
        query, key, value = (x.movedim(axis, -1).movedim(1, -1) for x in (query, key, value))
        lines = query.shape[:-2]
        query, key, value = (x.flatten(0, -3) for x in (query, key, value))
        if mask is not None:
            mask = mask.repeat_interleave(query.shape[0] // mask.shape[0], 0)
    if kv_heads is not None:
        axis = 2 if query.dim() == 3 else 1
        key, value = (_repeat_heads(x, axis, kv_heads, heads // kv_heads) for x in (key, value))
    if mask is not None or window is not None:
        mask, causal = _bias(query, key, mask, causal, window), False
    drop = dropout if training else 0.0
    if query.dim() == 3:
        q, k, v = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (query, key, value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop, is_causal=causal, scale=scale)
        y = y.transpose(1, 2).flatten(2)
        return y if along == "all" else y.unflatten(0, lines).movedim(-1, 1).movedim(-1, axis)
    q, k, v = (x.flatten(2).unflatten(1, (heads, -1)).transpose(2, 3) for x in (query, key, value))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop, is_causal=causal, scale=scale)
    return y.transpose(2, 3).flatten(1, 2).unflatten(2, query.shape[2:])


def _repeat_heads(x: Tensor, axis: int, heads: int, times: int) -> Tensor:
    """Repeat each head `times` times; the copies of a head are adjacent."""
    split = x.unflatten(axis, (heads, 1, -1))
    sizes = [-1] * split.dim()
    sizes[axis + 1] = times
    return split.expand(sizes).flatten(axis, axis + 2)


def _bias(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, window: int | None) -> Tensor:
    """Return the bias that is added to the attention logits.

    Masked keys get half of the lowest finite number of the dtype, so that the sum with a logit stays finite.
    """
    lowest = torch.finfo(query.dtype).min / 2  # half, so that the sum with a logit stays finite
    if mask is None:
        bias = query.new_zeros(())
    else:
        bias = torch.where(mask, 0.0, lowest) if mask.dtype == torch.bool else mask
        bias = (bias.unsqueeze(1) if mask.dim() == 3 else bias).to(query.dtype)
        keys = key.shape[1:-1].numel() if key.dim() == 3 else key.shape[2:].numel()
        bias = bias.expand(*bias.shape[:-1], keys).contiguous()  # GPUs refuse a bias with stride 0 along the keys
    if causal or window is not None:
        count = query.shape[1:-1].numel() if query.dim() == 3 else query.shape[2:].numel()
        position = torch.arange(count, device=query.device)
        distance = position[:, None] - position
        low, high = 0 if causal or window is None else 1 - window, count if window is None else window
        bias = bias.masked_fill((distance < low) | (distance >= high), lowest)
    return bias


@lowers(ops.AxialAttention)
def axial_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    offsets: Tensor | None = None,
    *,
    axis: str,
    heads: int,
    scale: float,
    dropout: float = 0.0,
    training: bool = False,
) -> Tensor:
    last = (0, 3, 2, 1) if axis == "height" else (0, 2, 3, 1)
    q, k, v = (x.permute(last).unflatten(3, (heads, -1)).transpose(2, 3) for x in (query, key, value))
    bias = None
    if offsets is not None:
        span = q.shape[3]
        position = torch.arange(span, device=q.device)
        table = offsets[:, position - position[:, None] + span - 1].to(q.dtype)
        bias = torch.einsum("bphid,dij->bphij", q, table) * scale
    drop = dropout if training else 0.0
    y = F.scaled_dot_product_attention(q, k, v, bias, drop, scale=scale).transpose(2, 3).flatten(3)
    return y.permute((0, 3, 2, 1) if axis == "height" else (0, 3, 1, 2))


lowers(ops.LocalAttention)(local_attention)


@lowers(ops.Rotary)
def rotary(x: Tensor, *, heads: int, base: float, width: int | None = None) -> Tensor:
    split = x.unflatten(2, (heads, -1))
    width = split.shape[-1] if width is None else width
    first, second = split[..., :width].chunk(2, -1)
    half = first.shape[-1]
    rates = base ** (torch.arange(half, device=x.device) / -half)
    angles = torch.outer(torch.arange(x.shape[1], device=x.device), rates).unsqueeze(1)
    cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    rotated = [first * cosines - second * sines, second * cosines + first * sines]
    return torch.cat([*rotated, split[..., width:]], -1).flatten(2)
