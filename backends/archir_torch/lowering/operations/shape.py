"""Lowering rules of operations that only rearrange elements, and of learned tensors."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from archir.ops import shape as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Reshape)
def reshape(x: Tensor, *, shape: tuple[int, ...]) -> Tensor:
    return x.reshape(x.shape[0], *shape)


@lowers(ops.Transpose)
def transpose(x: Tensor, *, axes: tuple[int, ...] | None) -> Tensor:
    return x.transpose(-1, -2) if axes is None else x.permute(0, *(axis + 1 for axis in axes))


@lowers(ops.Slice)
def slice_(x: Tensor, *, start: int, stop: int | None, axis: int | None) -> Tensor:
    if axis is None:
        axis = 0 if x.dim() >= 4 else -1
    axis = axis % (x.dim() - 1) + 1
    size = x.shape[axis]
    begin = start if start >= 0 else max(0, start + size)
    end = size if stop is None else stop if stop >= 0 else stop + size
    return x.narrow(axis, begin, end - begin)


@lowers(ops.FirstTokens)
def first_tokens(x: Tensor, like: Tensor) -> Tensor:
    return x[:, : like.shape[1]]


@lowers(ops.Pad)
def pad(x: Tensor, *, amount: int | tuple[int, ...]) -> Tensor:
    return F.pad(x, amount if isinstance(amount, tuple) else (amount,) * (2 * (x.dim() - 2)))


@lowers(ops.ToTokens)
def to_tokens(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


@lowers(ops.ToMap)
def to_map(x: Tensor, *, height: int | None) -> Tensor:
    rows = height or round(x.shape[1] ** 0.5)
    return x.transpose(1, 2).unflatten(2, (rows, -1))


@lowers(ops.Flatten)
def flatten(x: Tensor) -> Tensor:
    return x.flatten(1) if x.dim() > 1 else x[:, None]


@lowers(ops.ChannelShuffle)
def channel_shuffle(x: Tensor, *, groups: int) -> Tensor:
    return F.channel_shuffle(x, groups)


@lowers(ops.Upsample)
def upsample(x: Tensor, *, factor: int) -> Tensor:
    return F.interpolate(x, scale_factor=float(factor), mode="nearest") if factor > 1 else x


@lowers(ops.Parameter)
def parameter(value: Tensor, *, batch: int) -> Tensor:
    return value.expand(batch, *value.shape)
