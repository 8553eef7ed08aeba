"""Seconds that steps take, measured in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

Output = Tensor | Mapping[str, Tensor]
"""What a network gives: a tensor, or several by name."""


def in_turns(steps: Sequence[Callable[[], object]], device: torch.device, rounds: int) -> list[float]:
    """Seconds of each: the least of some rounds in which they take turns, after one that does not count."""
    found: list[list[float]] = [[] for _ in steps]
    for turn in range(rounds + 1):
        for step, times in zip(steps, found, strict=True):
            _wait(device)
            begin = time.perf_counter()
            step()
            _wait(device)
            if turn:
                times.append(time.perf_counter() - begin)
    return [min(times) for times in found]


def backward(result: Output, wanted: Iterable[Tensor]) -> None:
    """Gradients of what a network gave, as a training step takes them."""
    outputs = [result] if isinstance(result, Tensor) else result.values()
    losses = [output.float().square().mean() for output in outputs if output.requires_grad]
    torch.autograd.grad(losses, [tensor for tensor in wanted if tensor.requires_grad], allow_unused=True)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
