"""Second-order gradient of architecture parameters (Liu et al. 2019, DARTS, section 2.3, eq. 5 to 8).

One optimizer step of the weights is w' = w - rate * (momentum * velocity + dL_train(w, a)/dw + decay * w). The
gradient
of L_val(w', a) with respect to a is dL_val(w', a)/da - rate * d2 L_train(w, a)/da dw * v, where v = dL_val(w',
a)/dw'.
The second term is computed as a difference of gradients at w + e v and w - e v, with e = 0.01 / |v|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from archir_torch.training.distributed import average

STEP_LENGTH = 0.01
"""Length of the finite-difference step, in the space of all weights (DARTS, footnote 2)."""


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
    step_length: float = STEP_LENGTH,
) -> tuple[list[Tensor], Tensor]:
    """Return the gradients of the architecture parameters, and the validation loss after the unrolled step.

    `train` and `validate` compute the losses at the current values of the weights, which are restored at the end. The
    argument of `train` is True if gradients for the weights are not needed. Random operations such as dropout must draw
    the same numbers in all calls of `train`. Gradients are averaged over all processes.
    """
    original = [weight.detach().clone() for weight in weights]
    decays = [decay] * len(weights) if isinstance(decay, (int, float)) else list(decay)
    velocities = list(velocity) or [None] * len(weights)
    steps = _average_gradients(train(False), weights)
    with torch.no_grad():
        for weight, step, speed, part in zip(weights, steps, velocities, decays, strict=True):
            step = step + part * weight if part else step
            weight -= rate * (step if speed is None else step + momentum * speed)
    loss = validate()
    gradients = _average(torch.autograd.grad(loss, [*alphas, *weights], allow_unused=True), [*alphas, *weights])
    direct, vector = gradients[: len(alphas)], gradients[len(alphas) :]
    norm = torch.sqrt(sum((part.square().sum() for part in vector), start=torch.zeros_like(loss)))
    e = step_length / norm.clamp_min(1e-12)
    differences = []
    for sign in (1.0, -1.0):
        _move_weights(weights, original, vector, sign * e)
        differences.append(_average_gradients(train(True), alphas))
    _move_weights(weights, original, vector, torch.zeros_like(e))
    above, below = differences
    results = [d - rate * (a - b) / (2 * e) for d, a, b in zip(direct, above, below, strict=True)]
    return results, loss.detach()


def _average_gradients(loss: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of a loss with respect to tensors, averaged over processes."""
    return _average(torch.autograd.grad(loss, list(tensors), allow_unused=True), tensors)


def _average(gradients: Sequence[Tensor | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Average gradients over processes; a missing gradient counts as zero."""
    filled = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients, tensors, strict=True)]
    average(filled)
    return filled


@torch.no_grad()
def _move_weights(
    weights: Sequence[Tensor], start: Sequence[Tensor], direction: Sequence[Tensor], distance: Tensor
) -> None:
    """Set weights to `start + distance * direction`."""
    for weight, origin, way in zip(weights, start, direction, strict=True):
        weight.copy_(origin + distance * way)
