"""Lowering rules of top-k selection and mixtures of experts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import routing as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.TopK)
def top_k(x: Tensor, *, k: int) -> Tensor:
    return x.sort(dim=-1, descending=True, stable=True).values[..., :k]


@lowers(ops.TopPositions)
def top_positions(x: Tensor, *, k: int) -> Tensor:
    return x.sort(dim=-1, descending=True, stable=True).indices[..., :k]


@lowers(ops.ExpertLinear)
def expert_linear(x: Tensor, chosen: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    experts, channels, features = weight.shape
    times = chosen.shape[2] * chosen.shape[1] // x.shape[1]  # experts per row
    if torch.compiler.is_compiling():  # the number of rows per expert is unknown then, so that all experts see all rows
        all_results = F.linear(x, weight.flatten(0, 1), None if bias is None else bias.flatten())
        index = chosen.reshape(x.shape[0], x.shape[1], times, 1).expand(-1, -1, -1, channels)
        return all_results.unflatten(2, (experts, channels)).gather(2, index).flatten(1, 2)
    choices = chosen.flatten()
    rows = x.unsqueeze(2).expand(-1, -1, times, -1).reshape(-1, features)
    order = choices.argsort(stable=True)
    parts = rows[order].split(choices.bincount(minlength=experts).tolist())
    biases = [None] * experts if bias is None else bias.unbind()
    mapped = torch.cat([F.linear(*arguments) for arguments in zip(parts, weight.unbind(), biases, strict=True)])
    return mapped.new_empty(mapped.shape).index_copy(0, order, mapped).reshape(x.shape[0], -1, channels)


@lowers(ops.CombineExperts)
def combine_experts(x: Tensor, gates: Tensor) -> Tensor:
    return (gates.unsqueeze(2) @ x.unflatten(1, gates.shape[1:])).squeeze(2)
