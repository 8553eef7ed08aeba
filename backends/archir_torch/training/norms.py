"""Batch norms with statistics over all processes (synchronised), or with frozen statistics."""

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
    """Make the batch norms in a network compute their statistics over all processes, if there are several.

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
    """Make the batch norms in a network use their running statistics in training as well, without updating them."""
    lowering = RULES[BatchNorm].function

    def frozen(*operands: Tensor, training: bool, **settings: Any) -> Tensor:
        return lowering(*operands, training=False, **settings)

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
    """Batch norm with statistics over the batches of all processes; otherwise the same as the lowering of
    `batch_norm`."""
    if not training:
        return RULES[BatchNorm].function(
            x, running_mean, running_var, weight, bias, eps=eps, momentum=momentum, training=False
        )
    maps = x.transpose(1, 2) if x.dim() == 3 else x
    normalise: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]] = _SyncBatchNorm.apply
    y, mean, variance, count = normalise(maps, weight, bias, eps)
    with torch.no_grad():
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * (count / (count - 1)), momentum)
    return y.transpose(1, 2) if x.dim() == 3 else y


class _SyncBatchNorm(torch.autograd.Function):
    """Normalises the channels of `x` [n, C, ...] to mean 0 and variance 1 over all processes, then scales and
    shifts them.

    Also returns the mean, the variance, and the number of values from which they were computed.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        axes = _axes(x)
        variance, mean = torch.var_mean(x.float(), axes, correction=0)
        local_stats = torch.cat([mean, variance, mean.new_tensor([x.numel() / x.shape[1]])])
        all_stats = local_stats.new_zeros(world().size, len(local_stats))
        all_stats[world().rank] = local_stats
        dist.all_reduce(all_stats)
        (means, variances), counts = all_stats[:, :-1].unflatten(1, (2, -1)).unbind(1), all_stats[:, -1:]
        count = counts.sum()
        mean = (means * counts).sum(0) / count
        variance = ((variances + (means - mean).square()) * counts).sum(0) / count
        inverse = (variance + eps).rsqrt()
        scale = inverse * weight if weight is not None else inverse
        shift = bias - mean * scale if bias is not None else -mean * scale
        ctx.save_for_backward(x, weight, mean, inverse, count)
        ctx.mark_non_differentiable(mean, variance, count)
        y = torch.addcmul(_per_channel(shift, x), x.float(), _per_channel(scale, x)).to(x.dtype)
        return y, mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, count = ctx.saved_tensors
        gradient = gradients[0].float()
        normalised = (x.float() - _per_channel(mean, x)) * _per_channel(inverse, x)
        local_sums = torch.stack([gradient.sum(_axes(x)), (gradient * normalised).sum(_axes(x))])
        global_sums = local_sums.clone()
        dist.all_reduce(global_sums)
        mean_gradient, correlation = (global_sums / count).unbind()
        scale = inverse * weight if weight is not None else inverse
        input_gradient = (
            gradient - _per_channel(mean_gradient, x) - normalised * _per_channel(correlation, x)
        ) * _per_channel(scale, x)
        needs_gradient = ctx.needs_input_grad
        return (
            input_gradient.to(x.dtype),
            local_sums[1] if needs_gradient[1] else None,
            local_sums[0] if needs_gradient[2] else None,
            None,
        )


def _axes(x: Tensor) -> list[int]:
    """Return all axes except the channel axis."""
    return [axis for axis in range(x.dim()) if axis != 1]


def _per_channel(channels: Tensor, x: Tensor) -> Tensor:
    """Reshape a vector [C] so that it broadcasts over the channels of x."""
    return channels.view(-1, *[1] * (x.dim() - 2))
