"""Experts that each map the rows that chose them: many operators of ONNX, joined before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir_torch.importing.calls.operators.registry import operator
from archir_torch.importing.patterns import experts


@operator("ExpertLinear")
def expert_linear(x: Tensor, chosen: Tensor, *stored: Tensor, count: int, **_: Any) -> Tensor:
    """Rows [samples, N, D] or [samples, N * k, D] by the matrices that [samples, N, k] chose of those stored."""
    rows = x.repeat_interleave(chosen.shape[2], 1) if x.shape[1] == chosen.shape[1] else x
    weight = torch.stack(stored[:count]).transpose(1, 2)
    bias = torch.stack(stored[count:]) if stored[count:] else None
    made: Tensor = experts.of_experts(rows.flatten(0, 1), weight, chosen.flatten(), bias)
    return made.reshape(*chosen.shape, -1)


@operator("CombineExperts")
def combine_experts(rows: Tensor, gates: Tensor, **_: Any) -> Tensor:
    """Rows [samples, N * k, D] of each token, summed with gates [samples, N, k]."""
    made: Tensor = experts.combined(rows.reshape(*gates.flatten(0, 1).shape, -1), gates.flatten(0, 1))
    return made.reshape(*gates.shape[:2], -1)
