"""ONNX pooling and reduction operators."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import constant_ints, onnx_operator
from archir_torch.importing.calls.operators.windows import pad_axes, window


@onnx_operator("MaxPool")
def max_pool(x: Tensor, kernel_shape: list[int] | None = None, ceil_mode: int = 0, **attributes: Any) -> Tensor:
    """Return the maximum of each window."""
    kernel = kernel_shape or []
    strides, before, after = _pool_window(x, attributes, kernel)
    ceil = _rounds_up(x, kernel, strides, before, after, bool(ceil_mode))
    functions: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
    result: Tensor = functions[len(kernel)](x, kernel, strides, before, ceil_mode=ceil)
    return result


@onnx_operator("AveragePool")
def avg_pool(
    x: Tensor, kernel_shape: list[int] | None = None, ceil_mode: int = 0, count_include_pad: int = 0, **attributes: Any
) -> Tensor:
    """Return the mean of each window."""
    kernel = kernel_shape or []
    strides, before, after = _pool_window(x, attributes, kernel)
    if count_include_pad and before != after:
        x, before, after = pad_axes(x, before, after), [0] * len(kernel), [0] * len(kernel)
    is_downsampling = kernel == strides == [*x.shape[2:]]  # a map of one window: not global pooling
    if (
        not count_include_pad
        and not is_downsampling
        and all(
            k >= b + size and size + b + a - k < s
            for size, k, s, b, a in zip(x.shape[2:], kernel, strides, before, after, strict=True)
        )
    ):
        return x.mean(list(range(2, x.dim())), keepdim=True)
    ceil = _rounds_up(x, kernel, strides, before, after, bool(ceil_mode))
    functions: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
    result: Tensor = functions[len(kernel)](x, kernel, strides, before, ceil, bool(count_include_pad))
    return result


def _pool_window(x: Tensor, attributes: dict[str, Any], kernel: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return strides, padding before and padding after, each with one number per spatial axis.

    Raises RuleError if the pool is dilated, or has more than three spatial axes.
    """
    strides, dilations, before, after = window(x, attributes, kernel)
    if any(dilation != 1 for dilation in dilations):
        raise RuleError("dilated pools are not supported")
    if not 1 <= len(kernel) <= 3:
        raise RuleError(f"pools over {len(kernel)} axes are not supported")
    return strides, before, after


def _rounds_up(
    x: Tensor, kernel: list[int], strides: list[int], before: list[int], after: list[int], ceil: bool
) -> bool:
    """Return the `ceil_mode` with which torch's equal padding gives the output size of uneven padding.

    Raises RuleError if neither rounding mode gives that size on all axes.
    """
    if before == after:
        return ceil
    options = []
    for size, k, s, b, a in zip(x.shape[2:], kernel, strides, before, after, strict=True):
        expected = (size + b + a - k) // s + 1
        up, down = -(-(size + 2 * b - k) // s) + 1, (size + 2 * b - k) // s + 1
        if (up - 1) * s >= size + b:
            up -= 1
        options.append({flag for flag, count in ((True, up), (False, down)) if count == expected})
    common = set.intersection(*options)
    if not common:
        raise RuleError("pools with uneven padding are not supported")
    return True in common


@onnx_operator("GlobalAveragePool")
def global_avg_pool(x: Tensor, **_: Any) -> Tensor:
    """Return the mean of each channel, with spatial axes of size 1."""
    return x.mean(list(range(2, x.dim())), keepdim=True)


@onnx_operator("GlobalMaxPool")
def global_max_pool(x: Tensor, **_: Any) -> Tensor:
    """Return the maximum of each channel, with spatial axes of size 1."""
    return x.amax(list(range(2, x.dim())), keepdim=True)


@onnx_operator("ReduceMean", "ReduceSum", "ReduceMax")
def reduce(x: Tensor, axes: Any = None, keepdims: int = 1, named: str = "ReduceMean", **attributes: Any) -> Tensor:
    """Reduce axes to their mean, sum or maximum."""
    axis_list = axes if axes is not None else attributes.get("given_axes")
    dims = constant_ints(axis_list) if axis_list is not None else list(range(x.dim()))
    if not dims:
        return x
    function: Any = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax}[named]
    result: Tensor = function(x, dims, keepdim=bool(keepdims))
    return result
