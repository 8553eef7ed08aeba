"""The second-order gradient of architecture parameters (Liu et al. 2019, DARTS, section 2.3, eq. 5 to 8).

With w' = w - rate * (momentum * velocity + dL_train(w, a)/dw + decay * w), one step of the weights' optimizer, the
gradient of L_val(w', a) for a is dL_val(w', a)/da - rate * d2 L_train(w, a)/da dw * v, where v = dL_val(w', a)/dw'. The
second term is a difference of gradients at w + e v and w - e v, with e = 0.01 / |v|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from archir_torch.training.distributed import average

REACH = 0.01
"""How far the finite difference reaches, in all weights together (DARTS, footnote 2)."""


def unrolled_gradient(
    train: Callable[[bool], Tensor],
    validate: Callable[[], Tensor],
    weights: Sequence[Tensor],
    alphas: Sequence[Tensor],
    *,
    rate: float,
    momentum: float = 0.0,
    velocity: Sequence[Tensor | None] = (),
    decay: float | Sequence[float] = 0.0,
    reach: float = REACH,
) -> tuple[list[Tensor], Tensor]:
    """The gradients of the architecture parameters, and the validation loss after the unrolled step.

    `train` and `validate` compute their losses from the weights as they are; these are left as they were. `train` is
    told whether the weights stay as they are: then no gradients of them are taken. Gradients are averaged over all
    processes.
    """
    kept = [weight.detach().clone() for weight in weights]
    decays = [decay] * len(weights) if isinstance(decay, (int, float)) else list(decay)
    speeds = list(velocity) or [None] * len(weights)
    steps = _gradients(train(False), weights)
    with torch.no_grad():
        for weight, step, speed, part in zip(weights, steps, speeds, decays, strict=True):
            step = step + part * weight if part else step
            weight -= rate * (step if speed is None else step + momentum * speed)
    loss = validate()
    both = _averaged(torch.autograd.grad(loss, [*alphas, *weights], allow_unused=True), [*alphas, *weights])
    direct, vector = both[: len(alphas)], both[len(alphas) :]
    norm = torch.sqrt(sum((part.square().sum() for part in vector), start=torch.zeros_like(loss)))
    e = reach / norm.clamp_min(1e-12)
    sides = []
    for sign in (1.0, -1.0):
        _move(weights, kept, vector, sign * e)
        sides.append(_gradients(train(True), alphas))
    _move(weights, kept, vector, torch.zeros_like(e))
    above, below = sides
    found = [d - rate * (a - b) / (2 * e) for d, a, b in zip(direct, above, below, strict=True)]
    return found, loss.detach()


def _gradients(loss: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    return _averaged(torch.autograd.grad(loss, list(tensors), allow_unused=True), tensors)


def _averaged(gradients: Sequence[Tensor | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    found = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients, tensors, strict=True)]
    average(found)
    return found


@torch.no_grad()
def _move(weights: Sequence[Tensor], start: Sequence[Tensor], direction: Sequence[Tensor], distance: Tensor) -> None:
    for weight, origin, way in zip(weights, start, direction, strict=True):
        weight.copy_(origin + distance * way)
