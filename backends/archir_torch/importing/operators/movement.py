"""Import of operators that only rearrange, repeat or select elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch

from archir.ir.op import Op
from archir.ops import resize as archir_resize
from archir.ops import shape
from archir.ops.lookup import Gather
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axis, Unsupported, Value, merge_atoms, new_axes, regroup
from archir_torch.importing.operators.elementwise import align_axes, as_value
from archir_torch.importing.rules import torch_operator

MAX_PARTS = 64
"""Maximum number of separate slices that replace a single operator."""


@torch_operator("contiguous", "clone", "detach", "alias", "lift_fresh_copy", "feature_dropout", "alpha_dropout")
def identity(b: Builder, x: Any, *_: Any, **__: Any) -> Any:
    """Import an operator that has no effect in evaluation."""
    return x


@torch_operator("dropout")
def dropout(b: Builder, x: Value, p: float = 0.5, train: bool = False) -> Value:
    """Import dropout, which has no effect in evaluation."""
    return x


def reshape_value(b: Builder, x: Value, sizes: Sequence[int]) -> Value:
    """Reshape a value; one of the sizes may be -1."""
    total = prod(x.shape)
    known_size = prod(size for size in sizes if size != -1)
    shape = [total // known_size if size == -1 else size for size in sizes]
    try:
        return regroup(x, shape, b.batch)
    except Unsupported:
        pass
    try:
        return regroup(merge_atoms(b.with_torch_base(x), b.batch), shape, b.batch)
    except Unsupported:
        return regroup(_merge_around_batch(b, x), shape, b.batch)


def _merge_around_batch(b: Builder, x: Value) -> Value:
    """Merge all atoms before the batch into one axis, and all atoms after it into another.

    The two axes can then be split in any way.
    """
    flat = [atom for axis in x.axes for atom in axis]
    at = flat.index(b.batch) if b.batch in flat else 0
    sides = [tuple(flat[:at]), tuple(flat[at + 1 :] if b.batch in flat else flat)]
    x = b.with_base(x, tuple(part for part in sides if part))
    before, after = ((Atom(prod(atom.size for atom in part)),) if part else () for part in sides)
    batch = (b.batch,) if b.batch in flat else ()
    return replace(x, base=tuple(part for part in (before, after) if part), axes=(before + batch + after,))


@torch_operator("view", "reshape", "_unsafe_view")
def view(b: Builder, x: Value, size: Sequence[int]) -> Value:
    return reshape_value(b, x, size)


@torch_operator("view_as", "reshape_as")
def view_as(b: Builder, x: Value, other: Value) -> Value:
    return reshape_value(b, x, other.shape)


@torch_operator("flatten")
def flatten(b: Builder, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Import the merging of the axes from `start_dim` to `end_dim`."""
    rank = len(x.axes)
    start, end = start_dim % rank, end_dim % rank
    merged = tuple(atom for axis in x.axes[start : end + 1] for atom in axis)
    return replace(x, axes=(*x.axes[:start], merged, *x.axes[end + 1 :]))


@torch_operator("unflatten")
def unflatten(b: Builder, x: Value, dim: int, sizes: Sequence[int]) -> Value:
    """Import the splitting of an axis into several; one of the sizes may be -1."""
    at = dim % len(x.axes)
    known_size = prod(size for size in sizes if size != -1)
    split_sizes = [x.shape[at] // known_size if size == -1 else size for size in sizes]
    return reshape_value(b, x, [*x.shape[:at], *split_sizes, *x.shape[at + 1 :]])


@torch_operator("permute")
def permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    return replace(x, axes=tuple(x.axes[dim] for dim in dims))


@torch_operator("transpose", "swapaxes", "swapdims")
def transpose(b: Builder, x: Value, dim0: int, dim1: int) -> Value:
    axes = list(x.axes)
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return replace(x, axes=tuple(axes))


@torch_operator("t", "numpy_T")
def t(b: Builder, x: Value) -> Value:
    return replace(x, axes=x.axes[::-1])


@torch_operator("movedim")
def movedim(b: Builder, x: Value, source: int, destination: int) -> Value:
    rank = len(x.axes)
    order = [i for i in range(rank) if i != source % rank]
    order.insert(destination % rank, source % rank)
    return permute(b, x, order)


@torch_operator("unsqueeze")
def unsqueeze(b: Builder, x: Value, dim: int) -> Value:
    at = dim % (len(x.axes) + 1)
    return replace(x, axes=(*x.axes[:at], (), *x.axes[at:]))


@torch_operator("squeeze")
def squeeze(b: Builder, x: Value, dim: int | Sequence[int] | None = None) -> Value:
    rank = len(x.axes)
    dims = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    at = {position % rank for position in dims}
    return replace(x, axes=tuple(axis for i, axis in enumerate(x.axes) if i not in at or axis))


@torch_operator("expand", "expand_as", "broadcast_to")
def expand(b: Builder, x: Value, target: Any, implicit: bool = False) -> Value:
    """Import the expansion of axes of size 1, without copying."""
    shape = target.shape if isinstance(target, Value) else tuple(target)
    axes = ((),) * (len(shape) - len(x.axes)) + x.axes
    result_axes = []
    for axis, size in zip(axes, shape, strict=True):
        if size in (-1, prod(atom.size for atom in axis)):
            result_axes.append(axis)
        else:
            result_axes.append(_copy_axis(b, size))
    return replace(x, axes=tuple(result_axes))


@torch_operator("repeat")
def repeat(b: Builder, x: Value, times: Sequence[int]) -> Value:
    """Import the repetition of a tensor along its axes."""
    if all(factor == 1 for factor in times):
        return x
    axes = ((),) * (len(times) - len(x.axes)) + x.axes
    result_axes = []
    for axis, count in zip(axes, times, strict=True):
        result_axes.append((_copy_axis(b, count) if not axis else (Atom(count),) if count > 1 else ()) + axis)
    return replace(x, axes=tuple(result_axes))


def _copy_axis(b: Builder, count: int) -> Axis:
    """Return an axis of `count` copies.

    If `count` is a multiple of the batch size, the axis contains the batch.
    """
    per_sample, remainder = divmod(count, b.batch.size)
    if remainder:
        return (Atom(count),) if count > 1 else ()
    return (b.batch, Atom(per_sample)) if per_sample > 1 else (b.batch,)


@torch_operator("repeat_interleave")
def repeat_interleave(b: Builder, x: Value, repeats: Any, dim: int | None = None, output_size: Any = None) -> Value:
    """Import the repetition of each position of an axis."""
    if dim is None or not isinstance(repeats, int):
        raise Unsupported("repetitions by a tensor, or without an axis")
    if repeats == 1:
        return x
    at = dim % len(x.axes)
    return replace(x, axes=(*x.axes[:at], (*x.axes[at], Atom(repeats)), *x.axes[at + 1 :]))


# slices


@torch_operator("slice")
def slice_(b: Builder, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value | Constant:
    """Import a slice of an axis; a slice without elements becomes a constant."""
    at = dim % len(x.axes)
    begin, stop, _ = slice(start, end).indices(x.shape[at])
    if stop <= begin:
        shape = [0 if i == at else size for i, size in enumerate(x.shape)]
        return Constant(torch.zeros(shape), computed="nothing")
    if step != 1:
        return _every_nth(b, x, at, begin, stop, step)
    return b.slice_axis(x, at, begin, stop)


def _every_nth(b: Builder, x: Value, at: int, start: int, stop: int, step: int) -> Value:
    """Return every `step`-th position of an axis.

    If the step divides the axis, the axis is split, and one position of each part is selected; otherwise, positions are
    sliced one by one.
    """
    size = x.shape[at]
    if size % step or start >= step or -(-(stop - start) // step) != size // step:
        places = range(start, stop, step)
        if len(places) > MAX_PARTS:
            raise Unsupported(f"every {step}th of {size} positions")
        return cat(b, [b.slice_axis(x, at, i, i + 1) for i in places], at)
    split_value = reshape_value(b, x, [*x.shape[:at], size // step, step, *x.shape[at + 1 :]])
    return select(b, split_value, at + 1, start)


@torch_operator("select")
def select(b: Builder, x: Value, dim: int, index: int) -> Value:
    """Import the selection of one position of an axis, which is then removed."""
    at = dim % len(x.axes)
    index %= x.shape[at]
    part = b.slice_axis(x, at, index, index + 1)
    return replace(part, axes=(*part.axes[:at], *part.axes[at + 1 :]))


@torch_operator("copy")
def copy(b: Builder, x: Value | Constant, source: Value | Constant, blocking: bool = False) -> Value:
    """Import an in-place copy: the result is the source, expanded to the tensor's shape."""
    shape = x.shape if isinstance(x, Value) else tuple(x.tensor.shape)
    return expand(b, as_value(b, source), shape)


@torch_operator("slice_scatter")
def slice_scatter(
    b: Builder, x: Value | Constant, part: Value | Constant, dim: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Value:  # fmt: skip
    """Import the replacement of a slice of an axis."""
    x = as_value(b, x)
    at = dim % len(x.axes)
    size = x.shape[at]
    begin, stop, _ = slice(start, end).indices(size)
    if step != 1:
        raise Unsupported(f"every {step}th of {size} positions")
    if (begin, stop) == (0, size):
        return as_value(b, part)
    before = [b.slice_axis(x, at, 0, begin)] if begin else []
    after = [b.slice_axis(x, at, stop, size)] if stop < size else []
    return cat(b, [*before, part, *after], at)


@torch_operator("select_scatter")
def select_scatter(b: Builder, x: Value | Constant, part: Value | Constant, dim: int, index: int) -> Value:
    """Import the replacement of one position of an axis."""
    at = dim % len(as_value(b, x).axes)
    index %= as_value(b, x).shape[at]
    return slice_scatter(b, x, unsqueeze(b, as_value(b, part), at), at, index, index + 1)


@torch_operator("narrow")
def narrow(b: Builder, x: Value, dim: int, start: int, length: int) -> Value:
    return b.slice_axis(x, dim % len(x.axes), start, start + length)


@torch_operator("unbind")
def unbind(b: Builder, x: Value, dim: int = 0) -> list[Value]:
    """Import the separation of all positions of an axis."""
    return [select(b, x, dim, i) for i in range(x.shape[dim % len(x.axes)])]


@torch_operator("split", "split_with_sizes")
def split(b: Builder, x: Value, sizes: int | Sequence[int], dim: int = 0) -> list[Value]:
    """Import the splitting of an axis into parts of one size, or of the given sizes."""
    at = dim % len(x.axes)
    size = x.shape[at]
    lengths = [min(sizes, size - i) for i in range(0, size, sizes)] if isinstance(sizes, int) else list(sizes)
    stops = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [b.slice_axis(x, at, end - length, end) for end, length in zip(stops, lengths, strict=True)]


@torch_operator("chunk", "tensor_split")
def chunk(b: Builder, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    """Import the splitting of an axis into parts of equal size; the last part may be smaller."""
    return split(b, x, -(-x.shape[dim % len(x.axes)] // chunks), dim)


def take_positions(b: Builder, x: Value, dim: int, index: Constant) -> Value:
    """Return the given constant positions of an axis."""
    at = dim % len(x.axes)
    places = [place % x.shape[at] for place in index.tensor.tolist()]
    return cat(b, [b.slice_axis(x, at, i, i + 1) for i in places], at)


@torch_operator("index")
def index(b: Builder, x: Value, indices: Sequence[Constant | Value | None]) -> Value:
    """Import indexing.

    Supported indices are constant positions of one axis, all positions of axes in order, and computed positions of
    tokens.
    """
    index_list = [(i, index_tensor) for i, index_tensor in enumerate(indices) if index_tensor is not None]
    if len(index_list) == 1:
        at, index_tensor = index_list[0]
        if (
            isinstance(index_tensor, Constant)
            and index_tensor.tensor.dim() == 1
            and index_tensor.tensor.numel() <= MAX_PARTS
            and index_tensor.tensor.dtype != torch.bool
        ):
            return take_positions(b, x, at, index_tensor)
    constants = [index_tensor for index_tensor in indices if isinstance(index_tensor, Constant)]
    if len(constants) == len(indices) and (reordered := _match_all_positions(x, constants)) is not None:
        return reordered
    if len(indices) == 2 and isinstance(indices[0], Constant) and isinstance(indices[1], Value):
        rows = indices[0].tensor.reshape(-1)
        if x.axes[0] == (b.batch,) and torch.equal(rows, torch.arange(b.batch.size)):
            return _gather_tokens(b, x, indices[1])
    raise Unsupported("indexing by several or computed positions")


def _match_all_positions(x: Value, indices: Sequence[Constant]) -> Value | None:
    """Match indices that select all positions of the first axes in order; return the value with its axes permuted.

    Each index must vary along a different axis of the result. Returns None if the indices do not match.
    """
    shape = torch.broadcast_shapes(*(entry.tensor.shape for entry in indices))
    axes: list[Axis | None] = [None if size > 1 else () for size in shape]
    for i, entry in enumerate(indices):
        size = x.shape[i]
        long_axes = [at for at, length in enumerate(entry.tensor.shape, len(shape) - entry.tensor.dim()) if length > 1]
        if len(long_axes) > 1 or not torch.equal(entry.tensor.reshape(-1), torch.arange(size)):
            return None
        if long_axes and axes[long_axes[0]] is not None:
            return None
        if long_axes:
            axes[long_axes[0]] = x.axes[i]
    result_axes = tuple(axis for axis in axes if axis is not None)
    return replace(x, axes=(*result_axes, *x.axes[len(indices) :])) if len(result_axes) == len(axes) else None


def _gather_tokens(b: Builder, x: Value, indices: Value) -> Value:
    """Import a lookup of tokens [B, N, D] or numbers [B, N] at positions that differ between samples."""
    if len(x.axes) not in (2, 3) or indices.axes[:1] != ((b.batch,),) or b.batch in sum(indices.axes[1:], ()):
        raise Unsupported("a lookup by positions")
    x = b.with_base(x, x.axes[1:])
    flat = tuple(atom for axis in indices.axes[1:] for atom in axis)
    node = b.add(Gather(), b.node(x), b.node(b.with_base(indices, (flat,))))
    return Value(node, (flat, *x.base[1:]), ((b.batch,), *indices.axes[1:], *x.axes[2:]), x.dtype)


# concatenation, shifts and shuffles


@torch_operator("cat", "concat", "concatenate")
def cat(b: Builder, tensors: Sequence[Value | Constant], dim: int = 0) -> Value:
    """Import concatenation along an axis."""
    operands = [x for x in tensors if not isinstance(x, Constant) or x.tensor.numel()]
    at = dim % len(as_value(b, operands[0]).axes)
    has_batch = any(isinstance(x, Value) and b.batch in x.axes[0] for x in operands)
    values = [as_value(b, x, at if has_batch and at else None) for x in operands]
    if len(values) == 1:
        return values[0]
    if any(set(v.axes[at]) - set(v.atoms) for v in values):
        raise Unsupported("a concatenation along expanded axes, or along the batch")
    isolated = [_isolate_atom(b, v, at) for v in values]
    computed = [v for v in isolated if not isinstance(v.node, Constant)]
    widest = max(computed or isolated, key=lambda v: prod(atom.size for atom in v.atoms if atom not in v.axes[at]))
    joined_axis = widest.axes[at]
    nodes = []
    for v in isolated:
        if v.axes[at] != joined_axis:
            widest_rest = replace(widest, axes=(*widest.axes[:at], (), *widest.axes[at + 1 :]))
            widest_rest, aligned = align_axes(b, widest_rest, v)
            widest = replace(widest_rest, axes=(*widest_rest.axes[:at], joined_axis, *widest_rest.axes[at + 1 :]))
            v = b.with_base(aligned, tuple(aligned.axes[at] if axis == joined_axis else axis for axis in widest.base))
        nodes.append(b.node(v))
    axis = widest.base.index(joined_axis)
    node = b.concat(nodes, axis)
    result_axis = (Atom(sum(v.shape[at] for v in values)),)
    base = tuple(result_axis if i == axis else other_axis for i, other_axis in enumerate(widest.base))
    axes = tuple(result_axis if i == at else other_axis for i, other_axis in enumerate(widest.axes))
    if len(axes[0]) == 0:  # the first tensor may be the same for all samples
        axes = (next((v.axes[0] for v in isolated if v.axes[0]), ()), *axes[1:])
    return Value(node, base, axes, widest.dtype)


def _isolate_atom(b: Builder, x: Value, at: int) -> Value:
    """Return the value with the given axis as a single atom and as an axis of the base."""
    x, position = b.isolate_axis(x, at)
    atom_axis = (Atom(x.shape[at]),)
    base = tuple(atom_axis if i == position else axis for i, axis in enumerate(x.base))
    return replace(x, base=base, axes=(*x.axes[:at], atom_axis, *x.axes[at + 1 :]))


@torch_operator("stack")
def stack(b: Builder, tensors: Sequence[Value | Constant], dim: int = 0) -> Value:
    """Import the stacking of values on a new axis."""
    values = [as_value(b, x) for x in tensors]
    return cat(b, [unsqueeze(b, v, dim) for v in values], dim)


@torch_operator("roll")
def roll(b: Builder, x: Value, shifts: Any, dims: Any = ()) -> Value:
    """Import cyclic shifts along axes."""
    shifts, dims = ([v] if isinstance(v, int) else list(v) for v in (shifts, dims))
    if not dims:
        raise Unsupported("a roll of the flattened tensor")
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if shift % size:
            parts = b.slice_axis(x, dim, size - shift % size, size), b.slice_axis(x, dim, 0, size - shift % size)
            x = cat(b, parts, dim)
    return x


@torch_operator("flip")
def flip(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    """Import the reversal of axes, position by position."""
    for dim in dims:
        positions = range(x.shape[dim] - 1, -1, -1)
        x = cat(b, [b.slice_axis(x, dim % len(x.axes), i, i + 1) for i in positions], dim)
    return x


@torch_operator("pixel_shuffle")
def pixel_shuffle(b: Builder, x: Value, factor: int) -> Value:
    return apply_to_map(b, archir_resize.PixelShuffle(factor), x)


@torch_operator("pixel_unshuffle")
def pixel_unshuffle(b: Builder, x: Value, factor: int) -> Value:
    return apply_to_map(b, archir_resize.PixelUnshuffle(factor), x)


@torch_operator("channel_shuffle")
def channel_shuffle(b: Builder, x: Value, groups: int) -> Value:
    return apply_to_map(b, shape.ChannelShuffle(groups), x)


def apply_to_map(b: Builder, op: Op, x: Value) -> Value:
    """Apply an operation to the value of a torch tensor [B, C, H, W]."""
    x = b.as_map(x)
    node = b.add(op, b.node(x))
    base = new_axes(b.types[node].shape)
    return Value(node, base, ((b.batch,), *base))
