"""The dominant eigenvalue of the validation loss's Hessian in the architecture parameters.

A search whose eigenvalue grows fast is about to derive an architecture that does not generalise; Zela et al. 2020
(Understanding and robustifying differentiable architecture search, section 4.3) stop it, and go back to before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from archir_torch.training.distributed import average

REACH = 1e-2
"""How far from the parameters gradients are taken, in all of them together."""


def dominant_eigenvalue(
    loss: Callable[[], Tensor],
    parameters: Tensor,
    generator: torch.Generator,
    iterations: int = 20,
    tolerance: float = 1e-3,
) -> float:
    """The eigenvalue of the greatest magnitude, by power iteration on differences of gradients."""
    vector = torch.randn(parameters.shape, generator=generator, dtype=torch.double).to(parameters)
    vector /= vector.norm()
    value = 0.0
    for _ in range(iterations):
        product = _times(loss, parameters, vector)
        estimate = float((vector * product).sum())
        norm = product.norm()
        if float(norm) == 0:
            return 0.0
        vector = product / norm
        if abs(estimate - value) <= tolerance * abs(estimate):
            return estimate
        value = estimate
    return value


def _times(loss: Callable[[], Tensor], parameters: Tensor, vector: Tensor) -> Tensor:
    kept = parameters.detach().clone()
    sides = []
    for sign in (1.0, -1.0):
        with torch.no_grad():
            parameters.copy_(kept + sign * REACH * vector)
        (gradient,) = torch.autograd.grad(loss(), [parameters])
        gradient = gradient.clone()
        average([gradient])
        sides.append(gradient)
    with torch.no_grad():
        parameters.copy_(kept)
    return (sides[0] - sides[1]) / (2 * REACH)


def rising(values: Sequence[float], window: int = 5, back: int = 5, drop: float = 0.75) -> int | None:
    """The epoch to go back to, if the eigenvalue has risen too fast: its mean over `window` epochs, `back` epochs ago,
    is less than `drop` times the mean now (section 4.3)."""
    if len(values) < window + back:
        return None
    now = sum(values[-window:]) / window
    before = sum(values[-window - back : -back]) / window
    return len(values) - 1 - back if now > 0 and before / now < drop else None
