"""Lowering rules of pooling and of reductions over an axis."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import pool as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.MaxPool)
def max_pool(
    x: Tensor, *, kernel: int | tuple[int, ...], stride: int | tuple[int, ...], pads: tuple[int, ...]
) -> Tensor:
    left, right, top, bottom = pads
    if left != right or top != bottom:
        x, left, top = F.pad(x, pads, value=float("-inf")), 0, 0
    return F.max_pool2d(x, kernel, stride, (top, left))


@lowers(ops.AvgPool)
def avg_pool(
    x: Tensor,
    *,
    kernel: int | tuple[int, ...],
    stride: int | tuple[int, ...],
    pads: tuple[int, ...],
    count_padding: bool,
) -> Tensor:
    left, right, top, bottom = pads
    if left == right and top == bottom:
        return F.avg_pool2d(x, kernel, stride, (top, left), count_include_pad=count_padding)
    mean = F.avg_pool2d(F.pad(x, pads), kernel, stride)
    if count_padding:
        return mean
    return mean / F.avg_pool2d(F.pad(torch.ones_like(x[:1, :1]), pads), kernel, stride)


@lowers(ops.MaxPool1d)
def max_pool1d(x: Tensor, *, kernel: int, stride: int, pads: tuple[int, ...]) -> Tensor:
    before, after = pads
    x = x.transpose(1, 2)
    if before != after:
        x, before = F.pad(x, pads, value=float("-inf")), 0
    return F.max_pool1d(x, kernel, stride, before).transpose(1, 2)


@lowers(ops.AvgPool1d)
def avg_pool1d(x: Tensor, *, kernel: int, stride: int, pads: tuple[int, ...], count_padding: bool) -> Tensor:
    before, after = pads
    x = x.transpose(1, 2).contiguous()  # on GPUs, torch's gradient is wrong if the input is not contiguous
    if before == after:
        return F.avg_pool1d(x, kernel, stride, before, count_include_pad=count_padding).transpose(1, 2)
    mean = F.avg_pool1d(F.pad(x, pads), kernel, stride)
    if not count_padding:
        mean = mean / F.avg_pool1d(F.pad(torch.ones_like(x[:1, :1]), pads), kernel, stride)
    return mean.transpose(1, 2)


@lowers(ops.MaxPool3d)
def max_pool3d(
    x: Tensor, *, kernel: int | tuple[int, ...], stride: int | tuple[int, ...], pads: tuple[int, ...]
) -> Tensor:
    before = pads[::-2]
    if pads[::2] != pads[1::2]:
        x, before = F.pad(x, pads, value=float("-inf")), (0, 0, 0)
    return F.max_pool3d(x, kernel, stride, before)


@lowers(ops.AvgPool3d)
def avg_pool3d(
    x: Tensor,
    *,
    kernel: int | tuple[int, ...],
    stride: int | tuple[int, ...],
    pads: tuple[int, ...],
    count_padding: bool,
) -> Tensor:
    sides = (kernel,) * 3 if isinstance(kernel, int) else kernel
    fits = all(
        size >= side for size, side in zip(x.shape[2:], sides, strict=True)
    )  # torch requires the kernel to fit into the map without its padding
    if fits and pads[::2] == pads[1::2]:
        return F.avg_pool3d(x, kernel, stride, pads[::-2], count_include_pad=count_padding)
    mean = F.avg_pool3d(F.pad(x, pads), kernel, stride)
    if count_padding:
        return mean
    return mean / F.avg_pool3d(F.pad(torch.ones_like(x[:1, :1]), pads), kernel, stride)


@lowers(ops.AdaptiveAvgPool)
def adaptive_avg_pool(x: Tensor, *, sizes: tuple[int, int]) -> Tensor:
    return F.adaptive_avg_pool2d(x, sizes)


@lowers(ops.AdaptiveMaxPool)
def adaptive_max_pool(x: Tensor, *, sizes: tuple[int, int]) -> Tensor:
    return F.adaptive_max_pool2d(x, sizes)


@lowers(ops.GlobalAvgPool)
def global_avg_pool(x: Tensor, *, keep: bool) -> Tensor:
    return x.mean(1) if x.dim() == 3 else x.mean(tuple(range(2, x.dim())), keepdim=keep)


@lowers(ops.GlobalMaxPool)
def global_max_pool(x: Tensor, *, keep: bool) -> Tensor:
    return x.amax(1) if x.dim() == 3 else x.amax(tuple(range(2, x.dim())), keepdim=keep)


@lowers(ops.MeanOver)
def mean_over(x: Tensor, *, axis: int) -> Tensor:
    return x.mean(axis if axis < 0 else axis + 1, keepdim=True)


@lowers(ops.SumOver)
def sum_over(x: Tensor, *, axis: int) -> Tensor:
    return x.sum(axis if axis < 0 else axis + 1, keepdim=True)


@lowers(ops.MaxOver)
def max_over(x: Tensor, *, axis: int) -> Tensor:
    return x.amax(axis if axis < 0 else axis + 1, keepdim=True)
