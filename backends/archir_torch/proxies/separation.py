"""How well an untrained network tells the samples of a minibatch apart."""

from __future__ import annotations

import torch

from archir.diagnostics.errors import fail
from archir.ops import activation
from archir_torch.proxies.registry import proxy
from archir_torch.proxies.untrained import Trial

RECTIFIERS = (
    activation.Relu, activation.Relu6, activation.LeakyRelu, activation.Elu, activation.Gelu, activation.Silu,
    activation.Mish, activation.HardSwish,
)  # fmt: skip
"""Activations that let positive numbers pass and hold negative ones back."""


@proxy
def jacob_cov(trial: Trial) -> float:
    """How little the gradients of the outputs for the inputs correlate between samples: -sum(log(v + k) + 1 / (v + k)),
    v the eigenvalues of their correlation matrix, k = 1e-5 (section 3.2; Mellor et al. 2020, version 1).

    Minus infinity if the gradients of a sample are all alike, so that it has no correlation with any other.
    """
    images, *others = trial.inputs
    if not images.is_floating_point():
        raise fail("A1111", "`jacob_cov` needs gradients for inputs, which tokens do not have")
    images = images.clone().requires_grad_()
    network = trial.network()
    found = network(images, *others)
    total = (next(iter(found.values())) if isinstance(found, dict) else found).sum()
    if not total.requires_grad:
        return float("-inf")
    (jacobian,) = torch.autograd.grad(total, images, materialize_grads=True)
    rows = jacobian.flatten(1).double()
    rows = rows - rows.mean(1, keepdim=True)
    if (rows == 0).all(1).any():
        return float("-inf")
    rows = rows / rows.norm(dim=1, keepdim=True)
    values = torch.linalg.eigvalsh(rows @ rows.T) + 1e-5
    return -float((values.log() + 1 / values).sum())


@proxy
def naswot(trial: Trial) -> float:
    """log |det K|, K[i, j] the number of units that samples i and j agree on: both on, or both off (Mellor et al. 2021,
    "Neural Architecture Search without Training", section 3, equation 2).

    A unit is a number that a rectifier reads (`RECTIFIERS`: ReLU and those after it, not sigmoids), on where it is
    positive; what two rectifiers read counts for both, as in the authors' program. Minus infinity if two samples turn
    on the same units. Raises ArchError (A1111) if there are no units.
    """
    tapped = trial.tapped(lambda op: isinstance(op, RECTIFIERS), operands=True)
    with torch.no_grad():
        _, *read = tapped.outputs(tapped.network())
    if not read:
        raise fail("A1111", f"`naswot` looks at rectifiers such as ReLU, and `{trial.graph.name}` has none")
    agree = torch.zeros(len(read[0]), len(read[0]), dtype=torch.float64, device=read[0].device)
    for units in read:
        on = (units.flatten(1) > 0).double()
        agree += on @ on.T + (1 - on) @ (1 - on).T
    return float(torch.linalg.slogdet(agree).logabsdet)
