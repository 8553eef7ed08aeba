"""Batch norms whose statistics are those of the batches of all processes together, as one process would have them, or
stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from archir.ops.norm import BatchNorm
from archir_torch.lowering.module import Layer
from archir_torch.lowering.rules import RULES
from archir_torch.supernet.network import SuperNetwork
from archir_torch.training.distributed import world


def synchronise(module: nn.Module) -> None:
    """Let the batch norms of a network share their statistics with those of the other processes, if there are any.

    Every process must run the same layers in the same order.
    """
    if world().size == 1:
        return
    lowering = RULES[BatchNorm].function
    for layer in module.modules():
        if isinstance(layer, Layer) and layer.function is lowering:
            layer.function = batch_norm
        if isinstance(layer, SuperNetwork):
            layer.substitute(lowering, batch_norm)


def freeze(module: nn.Module) -> None:
    """Let the batch norms of a network keep their statistics, and use them in training, too."""
    lowering = RULES[BatchNorm].function

    def frozen(*given: Tensor, training: bool, **settings: Any) -> Tensor:
        return lowering(*given, training=False, **settings)

    for layer in module.modules():
        if isinstance(layer, Layer) and layer.function is lowering:
            layer.function = frozen
        if isinstance(layer, SuperNetwork):
            layer.substitute(lowering, frozen)


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float,
    momentum: float,
    training: bool,
) -> Tensor:
    """As the lowering of `batch_norm`, over the batches of all processes."""
    if not training:
        return RULES[BatchNorm].function(
            x, running_mean, running_var, weight, bias, eps=eps, momentum=momentum, training=False
        )
    maps = x.transpose(1, 2) if x.dim() == 3 else x
    normalise: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]] = _Normalised.apply
    y, mean, variance, count = normalise(maps, weight, bias, eps)
    with torch.no_grad():
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * (count / (count - 1)), momentum)
    return y.transpose(1, 2) if x.dim() == 3 else y


class _Normalised(torch.autograd.Function):
    """Channels with mean 0 and variance 1 over all processes, scaled and shifted: `x` is [n, C, ...].

    Also the mean, the variance, and over how many numbers they are.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        axes = _axes(x)
        variance, mean = torch.var_mean(x.float(), axes, correction=0)
        own = torch.cat([mean, variance, mean.new_tensor([x.numel() / x.shape[1]])])
        every = own.new_zeros(world().size, len(own))
        every[world().rank] = own
        dist.all_reduce(every)
        (means, variances), counts = every[:, :-1].unflatten(1, (2, -1)).unbind(1), every[:, -1:]
        count = counts.sum()
        mean = (means * counts).sum(0) / count
        variance = ((variances + (means - mean).square()) * counts).sum(0) / count
        inverse = (variance + eps).rsqrt()
        scale = inverse * weight if weight is not None else inverse
        shift = bias - mean * scale if bias is not None else -mean * scale
        ctx.save_for_backward(x, weight, mean, inverse, count)
        ctx.mark_non_differentiable(mean, variance, count)
        y = torch.addcmul(_wide(shift, x), x.float(), _wide(scale, x)).to(x.dtype)
        return y, mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, count = ctx.saved_tensors
        gradient = gradients[0].float()
        normal = (x.float() - _wide(mean, x)) * _wide(inverse, x)
        own = torch.stack([gradient.sum(_axes(x)), (gradient * normal).sum(_axes(x))])
        every = own.clone()
        dist.all_reduce(every)
        level, slope = (every / count).unbind()
        scale = inverse * weight if weight is not None else inverse
        down = (gradient - _wide(level, x) - normal * _wide(slope, x)) * _wide(scale, x)
        wanted = ctx.needs_input_grad
        return down.to(x.dtype), own[1] if wanted[1] else None, own[0] if wanted[2] else None, None


def _axes(x: Tensor) -> list[int]:
    return [axis for axis in range(x.dim()) if axis != 1]


def _wide(channels: Tensor, x: Tensor) -> Tensor:
    """A number for each channel, in the shape of x."""
    return channels.view(-1, *[1] * (x.dim() - 2))
