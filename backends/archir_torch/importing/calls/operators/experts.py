"""Linear layers with experts and their weighted sum; fusion creates these operators from many ONNX operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.importing.calls.operators.registry import onnx_operator
from archir_torch.importing.patterns import experts


@onnx_operator("ExpertLinear")
def expert_linear(x: Tensor, chosen: Tensor, *stored: Tensor, count: int, **_: Any) -> Tensor:
    """Multiply each row by the matrix of its expert.

    x has rows [samples, N, D], or [samples, N * k, D] with one row per selected expert. `chosen` are expert indices
    [samples, N, k]. `stored` lists the matrices of all experts, followed by their biases, if any.
    """
    rows = x.repeat_interleave(chosen.shape[2], 1) if x.shape[1] == chosen.shape[1] else x
    weight = torch.stack(stored[:count]).transpose(1, 2)
    bias = torch.stack(stored[count:]) if stored[count:] else None
    result: Tensor = experts.of_experts(rows.flatten(0, 1), weight, chosen.flatten(), bias)
    return result.reshape(*chosen.shape, -1)


@onnx_operator("CombineExperts")
def combine_experts(rows: Tensor, gates: Tensor, **_: Any) -> Tensor:
    """Sum the k rows of each token, [samples, N * k, D], weighted by the gates [samples, N, k]."""
    result: Tensor = experts.combined(rows.reshape(*gates.flatten(0, 1).shape, -1), gates.flatten(0, 1))
    return result.reshape(*gates.shape[:2], -1)
