"""Separation proxies: how well an untrained network tells the samples in a minibatch apart."""

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
"""Activations that pass positive numbers and attenuate negative ones, such as ReLU and its successors."""


@proxy
def jacob_cov(trial: Trial) -> float:
    """Return how weakly the input gradients of the outputs correlate between samples.

    Source: section 3.2; Mellor et al. 2020, v1. The score is -sum(log(v + k) + 1 / (v + k)) over the eigenvalues v of
    the gradients' correlation matrix, with k = 1e-5. The score is minus infinity if the gradient of a sample is
    constant, because the correlation of that gradient with others is then undefined. Raises ArchError (A1111) if an
    input is an integer tensor.
    """
    images, *others = trial.inputs
    if not images.is_floating_point():
        raise fail("A1111", "`jacob_cov` needs gradients of the inputs, which integer tokens do not have")
    images = images.clone().requires_grad_()
    network = trial.network()
    result = network(images, *others)
    total = (next(iter(result.values())) if isinstance(result, dict) else result).sum()
    if not total.requires_grad:
        return float("-inf")
    (jacobian,) = torch.autograd.grad(total, images, materialize_grads=True)
    rows = jacobian.flatten(1).double()
    rows = rows - rows.mean(1, keepdim=True)
    if (rows == 0).all(1).any():
        return float("-inf")
    rows = rows / rows.norm(dim=1, keepdim=True)
    eigenvalues = torch.linalg.eigvalsh(rows @ rows.T) + 1e-5
    return -float((eigenvalues.log() + 1 / eigenvalues).sum())


@proxy
def naswot(trial: Trial) -> float:
    """Return log |det K|, where K[i, j] is the number of units in the same state for samples i and j.

    Source: Mellor et al. 2021, "Neural Architecture Search without Training", section 3, equation 2. A unit is an
    element of a rectifier's operand (see `RECTIFIERS`: ReLU and its successors, not sigmoids). A unit is on if the
    element is positive, otherwise off. An element that two rectifiers read counts twice, as in the authors'
    implementation. The score is minus infinity if two samples have the same units on. Raises ArchError (A1111) if
    there are no units.
    """
    tapped = trial.with_taps(lambda op: isinstance(op, RECTIFIERS), operands=True)
    with torch.no_grad():
        _, *inputs = tapped.outputs(tapped.network())
    if not inputs:
        raise fail("A1111", f"`naswot` looks at rectifiers such as ReLU, and `{trial.graph.name}` has none")
    agreements = torch.zeros(len(inputs[0]), len(inputs[0]), dtype=torch.float64, device=inputs[0].device)
    for units in inputs:
        active = (units.flatten(1) > 0).double()
        agreements += active @ active.T + (1 - active) @ (1 - active).T
    return float(torch.linalg.slogdet(agreements).logabsdet)
