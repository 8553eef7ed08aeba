"""Optimizers of torch, and learning rates as functions of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from math import cos, floor, pi
from typing import Any

import torch
from torch import Tensor

from archir.recipes.training import Optimizer
from archir_torch.training.tensors import is_divided
from archir_torch.training.uncompiled_optimizers import SGD, Adam, AdamW


def build(parameters: Iterable[Tensor], settings: Optimizer) -> torch.optim.Optimizer:
    """The optimizer; norms, biases and other vectors do not decay unless the settings say so."""
    every = list(parameters)
    decay = [p for p in every if p.dim() > 1 or settings.decay_norms]
    rest = [p for p in every if p.dim() <= 1 and not settings.decay_norms]
    groups: list[dict[str, Any]] = [
        {"params": group, "weight_decay": weight_decay}
        for group, weight_decay in ((decay, settings.weight_decay), (rest, 0.0))
        if group
    ]
    if settings.kind == "sgd":  # fused, it fails where a tensor has its first gradient later than others
        return SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.nesterov, foreach=True)
    fused = not any(is_divided(p) for p in every)
    kind = AdamW if settings.kind == "adamw" else Adam
    return kind(groups, lr=settings.lr, betas=settings.betas, fused=fused)


def factor(settings: Optimizer, progress: float, epochs: float, step: float = 0.0) -> float:
    """The learning rate at `progress` of `epochs`, as a part of `settings.lr`.

    `step` is how long a step takes, in epochs: warm-up ends after its last step, and begins above 0.
    """
    if settings.schedule_by == "epoch":
        progress, step = float(floor(progress)), 1.0
    warm = settings.warmup_epochs
    if progress < warm:
        return (progress + step) / (warm + step)
    low = settings.lr_min / settings.lr
    gone = min(1.0, (progress - warm) / max(epochs - warm, step or 1.0))
    match settings.schedule:
        case "cosine":
            return low + (1 - low) * (1 + cos(pi * gone)) / 2
        case "linear":
            return low + (1 - low) * (1 - gone)
        case "step":
            return max(low, settings.gamma ** bisect_right(settings.milestones, progress))
        case "constant":
            return 1.0
