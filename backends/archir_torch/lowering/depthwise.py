"""Depthwise convolutions with faster gradients on CPUs.

oneDNN computes the forward pass of depthwise convolutions fast, but their gradients slowly if the convolution is
strided or dilated or has filters wider than three pixels: oneDNN then takes 5 to 50 times as long as this module.
The gradients in this module are composed of convolutions for which oneDNN has fast kernels.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from archir_torch.lowering.kernels.functions import apply_function
from archir_torch.lowering.operations.conv import conv

_MAX_FAST_WIDTH = 3
"""Width in pixels of the widest filter whose gradient oneDNN computes fast."""


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
    """Compute the same result as `conv`, with a faster gradient if the convolution allows it.

    The faster gradient is used for depthwise convolutions with a square filter and no bias whose padding would keep the
    size of the map at stride 1. It supports first-order gradients only.
    """
    kernel = weight.shape[-1]
    if weight.shape[-2] != kernel or isinstance(stride, tuple) or isinstance(dilation, tuple):
        return conv(x, weight, bias, stride=stride, pads=pads, dilation=dilation, groups=groups)
    keeps_size = kernel % 2 == 1 and set(pads) == {dilation * (kernel - 1) // 2}
    is_depthwise = groups == x.shape[1] == weight.shape[0] and bias is None
    divisible = x.shape[2] % dilation == x.shape[3] % dilation == 0 and x.shape[3] // dilation > kernel // 2
    is_slow = stride > 1 or dilation > 1 or kernel > _MAX_FAST_WIDTH
    if is_slow and keeps_size and is_depthwise and divisible and torch.is_grad_enabled():
        y: Tensor = apply_function(_Depthwise, *_cast_for_autocast(x, weight), stride, dilation)
        return y
    return conv(x, weight, bias, stride=stride, pads=pads, dilation=dilation, groups=groups)


def _cast_for_autocast(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Cast the operands to the dtype in which autocast runs convolutions, because autocast is off in the backward
    pass."""
    device_type = x.device.type
    if not torch.is_autocast_enabled(device_type) or x.dtype == torch.float64:
        return x, weight
    dtype = torch.get_autocast_dtype(device_type)
    return x.to(dtype), weight.to(dtype)


class _Depthwise(torch.autograd.Function):
    """Depthwise convolution with filters of 2 m + 1 pixels, stride s, dilation d and zero padding:

    y[c, h, w] = sum over i, j of weight[c, i, j] x[c, s h + d (i - m), s w + d (j - m)].
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:
        ctx.stride, ctx.dilation, ctx.shape, ctx.kernel = stride, dilation, x.shape, weight.shape[-1]
        ctx.layout = _memory_format(x)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)
        return _same_conv(x, weight, stride, dilation)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        gradient = _undo_stride(gradient, ctx.stride, ctx.shape).contiguous(memory_format=ctx.layout)
        to_input = _same_conv(gradient, weight.flip(2, 3), 1, ctx.dilation) if weight is not None else None
        to_weight = None
        if x is not None:
            to_weight = _weight_gradient(x, gradient, ctx.kernel, ctx.dilation).view(-1, 1, ctx.kernel, ctx.kernel)
        return to_input, to_weight, None, None


def _same_conv(x: Tensor, weight: Tensor, stride: int, dilation: int) -> Tensor:
    """Convolve x with zero padding that, at stride 1, would keep the size of the map."""
    return F.conv2d(x, weight, None, stride, dilation * (weight.shape[-1] - 1) // 2, dilation, weight.shape[0])


def _undo_stride(gradient: Tensor, stride: int, shape: torch.Size) -> Tensor:
    """Scatter the gradient of a strided result to `shape`, which is the shape of the result at stride 1.

    The scattered gradient is zero except at every `stride`-th pixel.
    """
    if stride == 1:
        return gradient
    dense = torch.empty(
        shape, dtype=gradient.dtype, device=gradient.device, memory_format=_memory_format(gradient)
    ).zero_()
    dense[:, :, ::stride, ::stride] = gradient
    return dense


def _weight_gradient(x: Tensor, gradient: Tensor, kernel: int, dilation: int) -> Tensor:
    """Compute the weight gradient [C, 1, k, k] of a convolution at stride 1, at most `_MAX_FAST_WIDTH` filter columns
    at a time."""
    x, gradient = _space_to_batch(x, dilation), _space_to_batch(gradient, dilation)
    margin = kernel // 2
    columns = []
    for first in range(0, kernel, _MAX_FAST_WIDTH):
        width = min(_MAX_FAST_WIDTH, kernel - first)
        shifted = x if kernel <= _MAX_FAST_WIDTH else F.pad(x, (margin - first, first + width - 1 - margin))
        columns.append(
            _columns_gradient(shifted, gradient, (kernel, width), margin if kernel <= _MAX_FAST_WIDTH else 0)
        )
    return torch.cat(columns, 3) if len(columns) > 1 else columns[0]


def _columns_gradient(x: Tensor, gradient: Tensor, size: tuple[int, int], margin: int) -> Tensor:
    """Compute the weight gradient [C, 1, *size] for a block of adjacent filter columns; `margin` is the horizontal
    padding."""
    weight = x.new_empty(x.shape[1], 1, *size)
    paddings = [size[0] // 2, margin]
    gradients: tuple[Any, Tensor, Any] = torch.ops.aten.convolution_backward(
        gradient, x, weight, None, [1, 1], paddings, [1, 1], False, [0, 0], x.shape[1], [False, True, False]
    )
    return gradients[1]


def _space_to_batch(x: Tensor, dilation: int) -> Tensor:
    """Split images [N, C, H, W] by pixel phase into d * d smaller images each: [d d N, C, H / d, W / d] for
    dilation d.

    Each smaller image holds every d-th pixel of every d-th row, so that a convolution of x with dilation d becomes an
    undilated one.
    """
    if dilation == 1:
        return x
    n, c, h, w = x.shape
    if _memory_format(x) == torch.channels_last:
        pixels = x.permute(0, 2, 3, 1).reshape(n, h // dilation, dilation, w // dilation, dilation, c)
        phases = pixels.permute(2, 4, 0, 1, 3, 5).reshape(-1, h // dilation, w // dilation, c)
        return phases.permute(0, 3, 1, 2)
    pixels = x.reshape(n, c, h // dilation, dilation, w // dilation, dilation)
    return pixels.permute(3, 5, 0, 1, 2, 4).reshape(-1, c, h // dilation, w // dilation)


def _memory_format(x: Tensor) -> torch.memory_format:
    """Return the memory format of a tensor: channels-last only if it is not also contiguous."""
    is_channels_last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if is_channels_last else torch.contiguous_format
