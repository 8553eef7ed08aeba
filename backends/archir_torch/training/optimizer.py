"""Torch optimizers and learning-rate schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from inspect import unwrap
from math import cos, floor, pi
from typing import Any

import torch
from torch import Tensor

from archir.recipes.training import Optimizer
from archir_torch.training.tensors import is_sharded


class _Undecorated(torch.optim.Optimizer):
    """Optimizer base class with torch's methods, without the decorators that torch.compile adds to them."""

    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class SGD(_Undecorated, torch.optim.SGD):
    """Stochastic gradient descent with momentum, without torch.compile's decorators."""

    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


class Adam(_Undecorated, torch.optim.Adam):
    """Adam, without torch.compile's decorators."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class AdamW(_Undecorated, torch.optim.AdamW):
    """Adam with decoupled weight decay, without torch.compile's decorators."""

    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))


def build_optimizer(parameters: Iterable[Tensor], settings: Optimizer) -> torch.optim.Optimizer:
    """Return the optimizer that the settings define.

    Vectors, such as biases and the parameters of norms, have no weight decay unless `decay_norms` is set.
    """
    all_parameters = list(parameters)
    decayed = [p for p in all_parameters if p.dim() > 1 or settings.decay_norms]
    undecayed = [p for p in all_parameters if p.dim() <= 1 and not settings.decay_norms]
    groups: list[dict[str, Any]] = [
        {"params": group, "weight_decay": weight_decay}
        for group, weight_decay in ((decayed, settings.weight_decay), (undecayed, 0.0))
        if group
    ]
    if settings.kind == "sgd":  # fused SGD fails if a tensor gets its first gradient in a later step than others
        return SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.nesterov, foreach=True)
    fused = not any(is_sharded(p) for p in all_parameters)
    kind = AdamW if settings.kind == "adamw" else Adam
    return kind(groups, lr=settings.lr, betas=settings.betas, fused=fused)


def lr_factor(settings: Optimizer, progress: float, epochs: float, step: float = 0.0) -> float:
    """Return the learning rate as a fraction of `settings.lr`, at `progress` (in epochs) of `epochs` epochs.

    `step` is the length of a step in epochs. It shifts the warm-up, so that the learning rate starts above 0 and the
    warm-up ends after its last step.
    """
    if settings.schedule_by == "epoch":
        progress, step = float(floor(progress)), 1.0
    warmup = settings.warmup_epochs
    if progress < warmup:
        return (progress + step) / (warmup + step)
    min_factor = settings.lr_min / settings.lr
    fraction = min(1.0, (progress - warmup) / max(epochs - warmup, step or 1.0))
    match settings.schedule:
        case "cosine":
            return min_factor + (1 - min_factor) * (1 + cos(pi * fraction)) / 2
        case "linear":
            return min_factor + (1 - min_factor) * (1 - fraction)
        case "step":
            return max(min_factor, settings.gamma ** bisect_right(settings.milestones, progress))
        case "constant":
            return 1.0
