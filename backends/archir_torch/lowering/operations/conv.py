"""Lowering rules of convolutions and linear layers."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from archir.ops import conv as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Conv)
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int | tuple[int, ...],
    pads: tuple[int, ...],
    dilation: int | tuple[int, ...],
    groups: int,
) -> Tensor:
    left, right, top, bottom = pads
    if left != right or top != bottom:
        x, left, top = F.pad(x, pads), 0, 0
    return F.conv2d(x, weight, bias, stride, (top, left), dilation, groups)


@lowers(ops.Conv1d)
def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int,
    pads: tuple[int, ...],
    dilation: int,
    groups: int,
) -> Tensor:
    row, weight = as_row(x), weight.unsqueeze(2)
    return from_row(conv(row, weight, bias, stride=stride, pads=(*pads, 0, 0), dilation=dilation, groups=groups))


def as_row(x: Tensor) -> Tensor:
    """Return a sequence [N, T, C] as a map [N, C, 1, T].

    On CPUs it is a channels-last view, which oneDNN convolves up to 20 times as fast as torch's `conv1d` does. Other
    devices get a contiguous copy, as in `conv1d`.
    """
    row = x.transpose(1, 2).unsqueeze(2)
    return row if x.device.type == "cpu" else row.contiguous()


def from_row(x: Tensor) -> Tensor:
    """View a map [N, C, 1, T] as a sequence [N, T, C]."""
    return x.squeeze(2).transpose(1, 2)


@lowers(ops.Conv3d)
def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int | tuple[int, ...],
    pads: tuple[int, ...],
    dilation: int | tuple[int, ...],
    groups: int,
) -> Tensor:
    before = pads[::-2]
    if pads[::2] != pads[1::2]:
        x, before = F.pad(x, pads), (0, 0, 0)
    return F.conv3d(x, weight, bias, stride, before, dilation, groups)


@lowers(ops.ConvTranspose)
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int | tuple[int, ...],
    crop: tuple[int, ...],
    extra: tuple[int, ...],
    groups: int,
    dilation: int | tuple[int, ...],
) -> Tensor:
    return F.conv_transpose2d(x, weight, bias, stride, crop, extra, groups, dilation)


@lowers(ops.Linear)
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, weight, bias)
