"""Depthwise convolutions whose gradients are made of convolutions that CPUs have fast kernels for.

oneDNN runs depthwise convolutions fast forwards, but not the gradients of those with strides or dilations, nor of
filters wider than three pixels: they take 5 to 50 times as long as these.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from archir_torch.lowering.kernels.functions import applied
from archir_torch.lowering.operations.conv import conv

_WIDEST = 3
"""Pixels in a row of the widest filter whose gradient is fast."""


def depthwise_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int | tuple[int, ...],
    pads: tuple[int, ...],
    dilation: int | tuple[int, ...],
    groups: int,
) -> Tensor:
    """What `conv` does; if it is depthwise, square and keeps the size, with gradients that can be taken once."""
    kernel = weight.shape[-1]
    if weight.shape[-2] != kernel or isinstance(stride, tuple) or isinstance(dilation, tuple):
        return conv(x, weight, bias, stride=stride, pads=pads, dilation=dilation, groups=groups)
    same = kernel % 2 == 1 and set(pads) == {dilation * (kernel - 1) // 2}
    depthwise = groups == x.shape[1] == weight.shape[0] and bias is None
    apart = x.shape[2] % dilation == x.shape[3] % dilation == 0 and x.shape[3] // dilation > kernel // 2
    slow = stride > 1 or dilation > 1 or kernel > _WIDEST
    if slow and same and depthwise and apart and torch.is_grad_enabled():
        y: Tensor = applied(_Depthwise, *_as_run(x, weight), stride, dilation)
        return y
    return conv(x, weight, bias, stride=stride, pads=pads, dilation=dilation, groups=groups)


def _as_run(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Operands in the type that autocast has convolutions take: backwards it is not there to ask."""
    kind = x.device.type
    if not torch.is_autocast_enabled(kind) or x.dtype == torch.float64:
        return x, weight
    dtype = torch.get_autocast_dtype(kind)
    return x.to(dtype), weight.to(dtype)


class _Depthwise(torch.autograd.Function):
    """y[c, h, w] = sum of weight[c, i, j] x[c, s h + d (i - m), s w + d (j - m)], zeros outside, filters of 2 m + 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:
        ctx.stride, ctx.dilation, ctx.shape, ctx.kernel = stride, dilation, x.shape, weight.shape[-1]
        ctx.layout = _layout(x)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)
        return _same(x, weight, stride, dilation)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        gradient = _spread(gradient, ctx.stride, ctx.shape).contiguous(memory_format=ctx.layout)
        to_input = _same(gradient, weight.flip(2, 3), 1, ctx.dilation) if weight is not None else None
        to_weight = None
        if x is not None:
            to_weight = _weight_gradient(x, gradient, ctx.kernel, ctx.dilation).view(-1, 1, ctx.kernel, ctx.kernel)
        return to_input, to_weight, None, None


def _same(x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:
    return F.conv2d(x, weight, None, stride, dilation * (weight.shape[-1] - 1) // 2, dilation, weight.shape[0])


def _spread(gradient: Tensor, stride: int, shape: torch.Size) -> Tensor:
    """The gradient of a result of which every `stride`-th pixel was kept."""
    if stride == 1:
        return gradient
    whole = torch.empty(shape, dtype=gradient.dtype, device=gradient.device, memory_format=_layout(gradient)).zero_()
    whole[:, :, ::stride, ::stride] = gradient
    return whole


def _weight_gradient(x: Tensor, gradient: Tensor, kernel: int, dilation: int) -> Tensor:
    """The gradient [C, 1, k, k] at stride 1, of the pixels that a dilated filter meets, a few columns at a time."""
    x, gradient = _apart(x, dilation), _apart(gradient, dilation)
    margin = kernel // 2
    columns = []
    for first in range(0, kernel, _WIDEST):
        width = min(_WIDEST, kernel - first)
        shifted = x if kernel <= _WIDEST else F.pad(x, (margin - first, first + width - 1 - margin))
        columns.append(_columns_gradient(shifted, gradient, (kernel, width), margin if kernel <= _WIDEST else 0))
    return torch.cat(columns, 3) if len(columns) > 1 else columns[0]


def _columns_gradient(x: Tensor, gradient: Tensor, size: tuple[int, int], margin: int) -> Tensor:
    weight = x.new_empty(x.shape[1], 1, *size)
    paddings = [size[0] // 2, margin]
    found: tuple[Any, Tensor, Any] = torch.ops.aten.convolution_backward(
        gradient, x, weight, None, [1, 1], paddings, [1, 1], False, [0, 0], x.shape[1], [False, True, False]
    )
    return found[1]


def _apart(x: Tensor, dilation: int) -> Tensor:
    """Images [N, C, H, W] as d * d smaller ones each, [d d N, C, H / d, W / d]: every d-th pixel of every d-th row."""
    if dilation == 1:
        return x
    n, c, h, w = x.shape
    if _layout(x) == torch.channels_last:
        pixels = x.permute(0, 2, 3, 1).reshape(n, h // dilation, dilation, w // dilation, dilation, c)
        apart = pixels.permute(2, 4, 0, 1, 3, 5).reshape(-1, h // dilation, w // dilation, c)
        return apart.permute(0, 3, 1, 2)
    pixels = x.reshape(n, c, h // dilation, dilation, w // dilation, dilation)
    return pixels.permute(3, 5, 0, 1, 2, 4).reshape(-1, c, h // dilation, w // dilation)


def _layout(x: Tensor) -> torch.memory_format:
    last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if last else torch.contiguous_format
