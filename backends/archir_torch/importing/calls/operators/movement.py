"""ONNX operators that rearrange or repeat elements without computing new numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import constant_ints, constant_number, onnx_operator
from archir_torch.importing.calls.operators.windows import pad_axes


@onnx_operator("Reshape")
def reshape(
    x: Tensor, shape: Any = None, allowzero: int = 0, batch: int = 1, fixed: bool = False, **attributes: Any
) -> Tensor:
    """Reshape a tensor. In files with a fixed batch size of 1, a leading size of 1 stands for the batch."""
    target = constant_ints(attributes.get("given_shape") if shape is None else shape)
    target = [x.shape[i] if size == 0 and not allowzero else size for i, size in enumerate(target)]
    if fixed and x.shape[0] == batch and target and target[0] == 1:
        target[0] = batch
    return x.reshape(target)


@onnx_operator("Flatten")
def flatten(x: Tensor, axis: int = 1, **_: Any) -> Tensor:
    """Merge all axes from `axis` on, by default all but the batch axis."""
    if axis % x.dim() != 1:
        return x.reshape(int(np.prod(x.shape[:axis])), -1)
    return x.flatten(1)


@onnx_operator("Transpose")
def transpose(x: Tensor, perm: list[int] | None = None, **_: Any) -> Tensor:
    """Permute axes."""
    return x.permute(perm or list(range(x.dim()))[::-1])


@onnx_operator("Squeeze")
def squeeze(x: Tensor, axes: Any = None, batch: int = 1, **attributes: Any) -> Tensor:
    """Remove axes of size 1."""
    axis_list = axes if axes is not None else attributes.get("given_axes")
    dims = (
        constant_ints(axis_list) if axis_list is not None else [i for i, size in enumerate(x.shape) if size == 1 and i]
    )
    for dim in sorted((dim % x.dim() for dim in dims), reverse=True):
        if x.shape[dim] != 1:
            raise RuleError("it removes the batch axis" if dim == 0 else "it removes an axis whose size is not 1")
        x = x.squeeze(dim)
    return x


@onnx_operator("Unsqueeze")
def unsqueeze(x: Tensor, axes: Any = None, **attributes: Any) -> Tensor:
    """Insert axes of size 1."""
    dims = constant_ints(axes if axes is not None else attributes.get("given_axes"))
    rank = x.dim() + len(dims)
    for dim in sorted(dim % rank for dim in dims):
        x = x.unsqueeze(dim)
    return x


@onnx_operator("Concat")
def concat(*xs: Tensor, axis: int = 1, **_: Any) -> Tensor:
    """Concatenate along an axis."""
    return torch.cat(xs, axis)


@onnx_operator("Split")
def split(x: Tensor, sizes: Any = None, axis: int = 0, outputs: int = 1, **attributes: Any) -> Any:
    """Split along an axis, by default into equal parts."""
    size_list = sizes if sizes is not None else attributes.get("given_split")
    size = x.shape[axis]
    lengths = (
        constant_ints(size_list) if size_list is not None else [-(-size // outputs)] * (size // -(-size // outputs))
    )
    lengths += [size - sum(lengths)] if sum(lengths) < size else []
    return torch.split(x, lengths, axis)


@onnx_operator("Slice")
def slice_(
    x: Tensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, **attributes: Any
) -> Tensor:
    """Slice axes."""
    begin, end = (
        constant_ints(attributes[f"given_{n}"] if bound is None else bound)
        for n, bound in (("starts", starts), ("ends", ends))
    )
    axis_list = axes if axes is not None else attributes.get("given_axes")
    dims = constant_ints(axis_list) if axis_list is not None else list(range(len(begin)))
    step_list = constant_ints(steps) if steps is not None else [1] * len(begin)
    for a, b, dim, step in zip(begin, end, dims, step_list, strict=True):
        if step < 1:
            raise RuleError("slices with a negative step are not supported")
        start, stop, _ = slice(a, b).indices(x.shape[dim])
        slices: list[Any] = [slice(None)] * x.dim()
        slices[dim] = slice(start, stop, step)
        x = x[tuple(slices)]
    return x


@onnx_operator("Gather")
def gather(x: Tensor, at: Any, axis: int = 0, batch: int = 1, **attributes: Any) -> Tensor:
    """Look up rows of a table at computed indices, or take constant positions of an axis."""
    if isinstance(at, Tensor):
        if isinstance(x, torch.nn.Parameter) and axis == 0 and x.dim() == 2:
            return F.embedding(at, x)
        raise RuleError("positions that depend on the input are supported only for rows of a trained table")
    if np.ndim(at) > 1:
        rows = np.asarray(at)
        if len(rows) == batch and bool((rows == rows[:1]).all()) and axis == 0:  # the same for all samples
            table = isinstance(x, torch.nn.Parameter) and x.dim() == 2 and rows.ndim == 2
            result = F.embedding(torch.from_numpy(rows[0].copy()), x) if table else gather(x, rows[0], 0, batch)
            return result.unsqueeze(0).expand(batch, *result.shape)
        flat: Tensor = gather(x, rows.reshape(-1), axis, batch)
        unflattened: Tensor = flat.unflatten(axis, rows.shape)
        return unflattened
    indices = constant_ints(at)
    if np.ndim(at) == 0:
        return x.select(axis, indices[0])
    steps = [b - a for a, b in pairwise(indices)]
    if all(step == 1 for step in steps):
        return x.narrow(axis, indices[0] % x.shape[axis], len(indices))
    return torch.cat([x.narrow(axis, place % x.shape[axis], 1) for place in indices], axis)


@onnx_operator("Expand")
def expand(x: Tensor, shape: Any, batch: int = 1, fixed: bool = False, **_: Any) -> Tensor:
    """Broadcast a tensor to a shape."""
    target = constant_ints(shape)
    if fixed and target and target[0] == 1 and x.shape[0] == batch and len(target) == x.dim():
        target[0] = batch
    return x.expand(list(np.broadcast_shapes(tuple(x.shape), tuple(target))))


@onnx_operator("Pad")
def pad(
    x: Tensor, pads: Any = None, value: Any = None, axes: Any = None, mode: str = "constant", **attributes: Any
) -> Tensor:
    """Pad with a number, or by reflecting or repeating the tensor's elements."""
    amounts = constant_ints(attributes.get("given_pads") if pads is None else pads)
    fill = constant_number(attributes.get("value", 0.0) if value is None else value)
    dims = constant_ints(axes) if axes is not None else list(range(x.dim()))
    before, after = [0] * x.dim(), [0] * x.dim()
    for i, dim in enumerate(dims):
        before[dim], after[dim] = amounts[i], amounts[i + len(dims)]
    if mode != "constant":
        return _pad_by_own(x, before, after, mode)
    return pad_axes(x, before[1:], after[1:], fill) if not before[0] and not after[0] else F.pad(x, amounts)


def _pad_by_own(x: Tensor, before: list[int], after: list[int], mode: str) -> Tensor:
    """Pad with elements of the tensor: reflected, or repeated from the edge."""
    modes = {"reflect": "reflect", "edge": "replicate"}
    first_padded = next((i for i, amounts in enumerate(zip(before, after, strict=True)) if any(amounts)), x.dim())
    if mode not in modes or first_padded == 0 or (first_padded == 1 and x.dim() != 2):
        raise RuleError(f"padding by {mode} is supported only for axes of maps and tokens")
    flat = [size for pair in zip(before[:0:-1], after[:0:-1], strict=True) for size in pair]
    return F.pad(x, flat[: 2 * (x.dim() - first_padded)], modes[mode]) if first_padded < x.dim() else x
