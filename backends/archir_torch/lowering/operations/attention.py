"""Attention cores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import attention as ops
from archir_torch.lowering.local_attention import local_attention
from archir_torch.lowering.rules import lowers


@lowers(ops.Attention)
def attention(query: Tensor, key: Tensor, value: Tensor, *, heads: int, scale: float | None) -> Tensor:
    if query.dim() == 3:
        q, k, v = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (query, key, value))
        return F.scaled_dot_product_attention(q, k, v, scale=scale).transpose(1, 2).flatten(2)
    q, k, v = (x.flatten(2).unflatten(1, (heads, -1)).transpose(2, 3) for x in (query, key, value))
    y = F.scaled_dot_product_attention(q, k, v, scale=scale)
    return y.transpose(2, 3).flatten(1, 2).unflatten(2, query.shape[2:])


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
) -> Tensor:
    last = (0, 3, 2, 1) if axis == "height" else (0, 2, 3, 1)
    q, k, v = (x.permute(last).unflatten(3, (heads, -1)).transpose(2, 3) for x in (query, key, value))
    bias = None
    if offsets is not None:
        span = q.shape[3]
        position = torch.arange(span, device=q.device)
        table = offsets[:, position - position[:, None] + span - 1].to(q.dtype)
        bias = torch.einsum("bphid,dij->bphij", q, table) * scale
    y = F.scaled_dot_product_attention(q, k, v, bias, scale=scale).transpose(2, 3).flatten(3)
    return y.permute((0, 3, 2, 1) if axis == "height" else (0, 3, 1, 2))


lowers(ops.LocalAttention)(local_attention)


@lowers(ops.Rotary)
def rotary(x: Tensor, *, heads: int, base: float) -> Tensor:
    first, second = x.unflatten(2, (heads, -1)).chunk(2, -1)
    half = first.shape[-1]
    rates = base ** (torch.arange(half, device=x.device) / -half)
    angles = torch.outer(torch.arange(x.shape[1], device=x.device), rates).unsqueeze(1)
    cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1).flatten(2)
