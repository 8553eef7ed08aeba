"""Operators that move numbers and compute none."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import ints, number, operator
from archir_torch.importing.calls.operators.windows import padded


@operator("Reshape")
def reshape(
    x: Tensor, shape: Any = None, allowzero: int = 0, batch: int = 1, fixed: bool = False, **given: Any
) -> Tensor:
    """A 1 in front stands for the samples, in files that are made for one."""
    target = ints(given.get("given_shape") if shape is None else shape)
    target = [x.shape[i] if size == 0 and not allowzero else size for i, size in enumerate(target)]
    if fixed and x.shape[0] == batch and target and target[0] == 1:
        target[0] = batch
    return x.reshape(target)


@operator("Flatten")
def flatten(x: Tensor, axis: int = 1, **_: Any) -> Tensor:
    """The samples, and the rest."""
    if axis % x.dim() != 1:
        return x.reshape(int(np.prod(x.shape[:axis])), -1)
    return x.flatten(1)


@operator("Transpose")
def transpose(x: Tensor, perm: list[int] | None = None, **_: Any) -> Tensor:
    """Axes in another order."""
    return x.permute(perm or list(range(x.dim()))[::-1])


@operator("Squeeze")
def squeeze(x: Tensor, axes: Any = None, batch: int = 1, **given: Any) -> Tensor:
    """Without axes of size 1."""
    along = axes if axes is not None else given.get("given_axes")
    dims = ints(along) if along is not None else [i for i, size in enumerate(x.shape) if size == 1 and i]
    for dim in sorted((dim % x.dim() for dim in dims), reverse=True):
        if x.shape[dim] != 1:
            raise RuleError("the axis of samples is taken away" if dim == 0 else "an axis that is no 1 is taken away")
        x = x.squeeze(dim)
    return x


@operator("Unsqueeze")
def unsqueeze(x: Tensor, axes: Any = None, **given: Any) -> Tensor:
    """With axes of size 1."""
    dims = ints(axes if axes is not None else given.get("given_axes"))
    rank = x.dim() + len(dims)
    for dim in sorted(dim % rank for dim in dims):
        x = x.unsqueeze(dim)
    return x


@operator("Concat")
def concat(*xs: Tensor, axis: int = 1, **_: Any) -> Tensor:
    """Side by side."""
    return torch.cat(xs, axis)


@operator("Split")
def split(x: Tensor, sizes: Any = None, axis: int = 0, outputs: int = 1, **given: Any) -> Any:
    """Parts along an axis, equal ones if nothing is said."""
    along = sizes if sizes is not None else given.get("given_split")
    size = x.shape[axis]
    wanted = ints(along) if along is not None else [-(-size // outputs)] * (size // -(-size // outputs))
    wanted += [size - sum(wanted)] if sum(wanted) < size else []
    return torch.split(x, wanted, axis)


@operator("Slice")
def sliced(
    x: Tensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, **given: Any
) -> Tensor:
    """Positions of axes."""
    begin, end = (ints(given[f"given_{n}"] if one is None else one) for n, one in (("starts", starts), ("ends", ends)))
    along = axes if axes is not None else given.get("given_axes")
    dims = ints(along) if along is not None else list(range(len(begin)))
    by = ints(steps) if steps is not None else [1] * len(begin)
    for a, b, dim, step in zip(begin, end, dims, by, strict=True):
        if step < 1:
            raise RuleError("a slice that goes backwards")
        start, stop, _ = slice(a, b).indices(x.shape[dim])
        whole: list[Any] = [slice(None)] * x.dim()
        whole[dim] = slice(start, stop, step)
        x = x[tuple(whole)]
    return x


@operator("Gather")
def gather(x: Tensor, at: Any, axis: int = 0, batch: int = 1, **given: Any) -> Tensor:
    """A row of a table, or positions that are known."""
    if isinstance(at, Tensor):
        if isinstance(x, torch.nn.Parameter) and axis == 0 and x.dim() == 2:
            return F.embedding(at, x)
        raise RuleError("positions that depend on numbers of the input")
    if np.ndim(at) > 1:
        rows = np.asarray(at)
        if len(rows) == batch and bool((rows == rows[:1]).all()) and axis == 0:  # the same for all samples
            table = isinstance(x, torch.nn.Parameter) and x.dim() == 2 and rows.ndim == 2
            made = F.embedding(torch.from_numpy(rows[0].copy()), x) if table else gather(x, rows[0], 0, batch)
            return made.unsqueeze(0).expand(batch, *made.shape)
        flat: Tensor = gather(x, rows.reshape(-1), axis, batch)
        parted: Tensor = flat.unflatten(axis, rows.shape)
        return parted
    places = ints(at)
    if np.ndim(at) == 0:
        return x.select(axis, places[0])
    steps = [b - a for a, b in pairwise(places)]
    if all(step == 1 for step in steps):
        return x.narrow(axis, places[0] % x.shape[axis], len(places))
    return torch.cat([x.narrow(axis, place % x.shape[axis], 1) for place in places], axis)


@operator("Expand")
def expand(x: Tensor, shape: Any, batch: int = 1, fixed: bool = False, **_: Any) -> Tensor:
    """Stretched along axes of size 1."""
    target = ints(shape)
    if fixed and target and target[0] == 1 and x.shape[0] == batch and len(target) == x.dim():
        target[0] = batch
    return x.expand(list(np.broadcast_shapes(tuple(x.shape), tuple(target))))


@operator("Pad")
def pad(
    x: Tensor, pads: Any = None, value: Any = None, axes: Any = None, mode: str = "constant", **given: Any
) -> Tensor:
    """Numbers around."""
    amounts = ints(given.get("given_pads") if pads is None else pads)
    outside = number(given.get("value", 0.0) if value is None else value)
    dims = ints(axes) if axes is not None else list(range(x.dim()))
    before, after = [0] * x.dim(), [0] * x.dim()
    for i, dim in enumerate(dims):
        before[dim], after[dim] = amounts[i], amounts[i + len(dims)]
    if mode != "constant":
        return _repeated(x, before, after, mode)
    return padded(x, before[1:], after[1:], outside) if not before[0] and not after[0] else F.pad(x, amounts)


def _repeated(x: Tensor, before: list[int], after: list[int], mode: str) -> Tensor:
    """With numbers that are there already around: mirrored, or those at the edge."""
    known = {"reflect": "reflect", "edge": "replicate"}
    first = next((i for i, amounts in enumerate(zip(before, after, strict=True)) if any(amounts)), x.dim())
    if mode not in known or first == 0 or (first == 1 and x.dim() != 2):
        raise RuleError(f"padding by {mode} of other axes than those of maps and tokens")
    flat = [size for pair in zip(before[:0:-1], after[:0:-1], strict=True) for size in pair]
    return F.pad(x, flat[: 2 * (x.dim() - first)], known[mode]) if first < x.dim() else x
