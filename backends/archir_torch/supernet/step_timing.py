"""Timing of training steps in seconds; the candidates are run alternately, so that load changes affect all of
them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

Output = Tensor | Mapping[str, Tensor]
"""Output of a network: a tensor, or several tensors by name."""


def time_in_turns(steps: Sequence[Callable[[], object]], device: torch.device, rounds: int) -> list[float]:
    """Return the minimum time of each step in seconds, over rounds in which the steps run alternately after a
    warm-up round."""
    seconds: list[list[float]] = [[] for _ in steps]
    for turn in range(rounds + 1):
        for step, times in zip(steps, seconds, strict=True):
            _synchronize(device)
            start = time.perf_counter()
            step()
            _synchronize(device)
            if turn:
                times.append(time.perf_counter() - start)
    return [min(times) for times in seconds]


def run_backward(result: Output, tensors: Iterable[Tensor]) -> None:
    """Compute the gradients of a network's output with respect to these tensors, as a training step does."""
    outputs = [result] if isinstance(result, Tensor) else result.values()
    losses = [output.float().square().mean() for output in outputs if output.requires_grad]
    torch.autograd.grad(losses, [tensor for tensor in tensors if tensor.requires_grad], allow_unused=True)


def _synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
