"""Dominant eigenvalue of the validation loss's Hessian with respect to the architecture parameters.

If the eigenvalue grows fast, the derived architecture is unlikely to generalise. Zela et al. 2020 (Understanding
and robustifying differentiable architecture search, section 4.3) stop the search in this case, and return to
earlier parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from archir_torch.training.distributed import average

STEP_LENGTH = 1e-2
"""Length of the finite-difference step, in the space of all architecture parameters."""


def dominant_eigenvalue(
    loss: Callable[[], Tensor],
    parameters: Tensor,
    generator: torch.Generator,
    iterations: int = 20,
    tolerance: float = 1e-3,
) -> float:
    """Return the eigenvalue of largest magnitude, by power iteration on finite differences of gradients.

    Random operations such as dropout must draw the same numbers in all calls of `loss`.
    """
    vector = torch.randn(parameters.shape, generator=generator, dtype=torch.double).to(parameters)
    vector /= vector.norm()
    value = 0.0
    for _ in range(iterations):
        product = _hessian_product(loss, parameters, vector)
        estimate = float((vector * product).sum())
        norm = product.norm()
        if float(norm) == 0:
            return 0.0
        vector = product / norm
        if abs(estimate - value) <= tolerance * abs(estimate):
            return estimate
        value = estimate
    return value


def _hessian_product(loss: Callable[[], Tensor], parameters: Tensor, vector: Tensor) -> Tensor:
    """Return the product of the Hessian with a vector, as a central difference of gradients."""
    original = parameters.detach().clone()
    gradients = []
    for sign in (1.0, -1.0):
        with torch.no_grad():
            parameters.copy_(original + sign * STEP_LENGTH * vector)
        (gradient,) = torch.autograd.grad(loss(), [parameters])
        gradient = gradient.clone()
        average([gradient])
        gradients.append(gradient)
    with torch.no_grad():
        parameters.copy_(original)
    return (gradients[0] - gradients[1]) / (2 * STEP_LENGTH)


def rollback_epoch(values: Sequence[float], window: int = 5, back: int = 5, drop: float = 0.75) -> int | None:
    """Return the epoch to which to roll back if the eigenvalue has risen too fast, otherwise None.

    The eigenvalue has risen too fast if its mean over the `window` epochs that ended `back` epochs ago is less than
    `drop` times its current mean over `window` epochs (section 4.3).
    """
    if len(values) < window + back:
        return None
    recent = sum(values[-window:]) / window
    earlier = sum(values[-window - back : -back]) / window
    return len(values) - 1 - back if recent > 0 and earlier / recent < drop else None
