"""Top-k, argmax, cumulative sums, and lookups at indices that differ between samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import constant_ints, onnx_operator


@onnx_operator("TopK")
def top_k(x: Tensor, k: Any = None, axis: int = -1, largest: int = 1, **attributes: Any) -> Any:
    """Return the k largest numbers along an axis, and their positions."""
    count = constant_ints(attributes["k"] if k is None else k)[0]
    return torch.topk(x, count, axis, bool(largest))


@onnx_operator("ArgMax")
def arg_max(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0, **_: Any) -> Tensor:
    """Return the position of the largest number along an axis."""
    if select_last_index:
        raise RuleError("select_last_index is not supported")
    return torch.argmax(x, axis, bool(keepdims))


@onnx_operator("CumSum")
def cum_sum(x: Tensor, axis: Any, exclusive: int = 0, reverse: int = 0, **_: Any) -> Tensor:
    """Return cumulative sums along an axis."""
    if exclusive or reverse:
        raise RuleError("exclusive or reversed cumulative sums are not supported")
    return torch.cumsum(x, constant_ints(axis)[0])


@onnx_operator("GatherND")
def gather_nd(x: Tensor, at: Any, batch_dims: int = 0, **_: Any) -> Tensor:
    """Return the rows of each sample at computed indices of the sample's first axis."""
    if not isinstance(at, Tensor) or batch_dims != 1 or at.shape[-1] != 1 or x.dim() < 2:
        raise RuleError("lookups are supported only along the first axis of each sample")
    indices = at.squeeze(-1)
    if indices.dim() not in (1, 2):
        raise RuleError("lookups by positions with more than one axis are not supported")
    samples = torch.arange(x.shape[0], device=x.device)
    return x[samples if indices.dim() == 1 else samples.unsqueeze(1), indices]
