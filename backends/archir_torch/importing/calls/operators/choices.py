"""The largest of some numbers, sums up to each, and what is looked up by the numbers of a sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import ints, operator


@operator("TopK")
def top_k(x: Tensor, k: Any = None, axis: int = -1, largest: int = 1, **given: Any) -> Any:
    """The largest numbers, and where they are."""
    count = ints(given["k"] if k is None else k)[0]
    return torch.topk(x, count, axis, bool(largest))


@operator("ArgMax")
def arg_max(x: Tensor, axis: int = 0, keepdims: int = 1, select_last_index: int = 0, **_: Any) -> Tensor:
    """Where the largest number is."""
    if select_last_index:
        raise RuleError("the last of equal numbers")
    return torch.argmax(x, axis, bool(keepdims))


@operator("CumSum")
def sums(x: Tensor, axis: Any, exclusive: int = 0, reverse: int = 0, **_: Any) -> Tensor:
    """Sums of all positions up to each."""
    if exclusive or reverse:
        raise RuleError("sums without the last one, or from the end")
    return torch.cumsum(x, ints(axis)[0])


@operator("GatherND")
def gather_nd(x: Tensor, at: Any, batch_dims: int = 0, **_: Any) -> Tensor:
    """Positions along the first axis of each sample."""
    if not isinstance(at, Tensor) or batch_dims != 1 or at.shape[-1] != 1 or x.dim() < 2:
        raise RuleError("positions of other axes than the first of each sample")
    places = at.squeeze(-1)
    if places.dim() not in (1, 2):
        raise RuleError("positions of more than one axis")
    samples = torch.arange(x.shape[0], device=x.device)
    return x[samples if places.dim() == 1 else samples.unsqueeze(1), places]
