"""Pools, and what is reduced along axes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import ints, operator
from archir_torch.importing.calls.operators.windows import padded, window


@operator("MaxPool")
def max_pool(x: Tensor, kernel_shape: list[int] | None = None, ceil_mode: int = 0, **given: Any) -> Tensor:
    """The largest of each window."""
    kernel = kernel_shape or []
    strides, dilations, before, after = window(x, given, kernel)
    if any(one != 1 for one in dilations):
        raise RuleError("a pool that is dilated")
    ceil = _rounds_up(x, kernel, strides, before, after, bool(ceil_mode))
    functions: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
    made: Tensor = functions[len(kernel)](x, kernel, strides, before, ceil_mode=ceil)
    return made


@operator("AveragePool")
def avg_pool(
    x: Tensor, kernel_shape: list[int] | None = None, ceil_mode: int = 0, count_include_pad: int = 0, **given: Any
) -> Tensor:
    """The mean of each window."""
    kernel = kernel_shape or []
    strides, dilations, before, after = window(x, given, kernel)
    if any(one != 1 for one in dilations):
        raise RuleError("a pool that is dilated")
    if count_include_pad and before != after:
        x, before, after = padded(x, before, after), [0] * len(kernel), [0] * len(kernel)
    halves = kernel == strides == [*x.shape[2:]]  # a map of one window, and no pool of all there is
    if (
        not count_include_pad
        and not halves
        and all(
            k >= b + size and size + b + a - k < s
            for size, k, s, b, a in zip(x.shape[2:], kernel, strides, before, after, strict=True)
        )
    ):
        return x.mean(list(range(2, x.dim())), keepdim=True)
    ceil = _rounds_up(x, kernel, strides, before, after, bool(ceil_mode))
    functions: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
    made: Tensor = functions[len(kernel)](x, kernel, strides, before, ceil, bool(count_include_pad))
    return made


def _rounds_up(
    x: Tensor, kernel: list[int], strides: list[int], before: list[int], after: list[int], ceil: bool
) -> bool:
    """Whether more zeros after than before are what rounding up makes."""
    if before == after:
        return ceil
    rounded = []
    for size, k, s, b, a in zip(x.shape[2:], kernel, strides, before, after, strict=True):
        wanted = (size + b + a - k) // s + 1
        up, down = -(-(size + 2 * b - k) // s) + 1, (size + 2 * b - k) // s + 1
        if (up - 1) * s >= size + b:
            up -= 1
        rounded.append({flag for flag, count in ((True, up), (False, down)) if count == wanted})
    common = set.intersection(*rounded)
    if not common:
        raise RuleError("a pool that is padded unevenly")
    return True in common


@operator("GlobalAveragePool")
def global_avg_pool(x: Tensor, **_: Any) -> Tensor:
    """The mean of each channel."""
    return x.mean(list(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor, **_: Any) -> Tensor:
    """The largest of each channel."""
    return x.amax(list(range(2, x.dim())), keepdim=True)


@operator("ReduceMean", "ReduceSum", "ReduceMax")
def reduced(x: Tensor, axes: Any = None, keepdims: int = 1, named: str = "ReduceMean", **given: Any) -> Tensor:
    """Along axes."""
    along = axes if axes is not None else given.get("given_axes")
    dims = ints(along) if along is not None else list(range(x.dim()))
    if not dims:
        return x
    function: Any = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax}[named]
    made: Tensor = function(x, dims, keepdim=bool(keepdims))
    return made
