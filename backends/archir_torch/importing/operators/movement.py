"""Operators that move numbers, or leave them where they are."""

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
from archir_torch.importing.layout import Atom, Axis, Unsupported, Value, coalesced, fresh, regrouped
from archir_torch.importing.operators.elementwise import aligned_beside, valued
from archir_torch.importing.rules import understands

MOST_PARTS = 64
"""Positions that are taken one by one."""


@understands("contiguous", "clone", "detach", "alias", "lift_fresh_copy", "feature_dropout", "alpha_dropout")
def same(b: Builder, x: Any, *_: Any, **__: Any) -> Any:
    return x


@understands("dropout")
def dropout(b: Builder, x: Value, p: float = 0.5, train: bool = False) -> Value:
    return x


def reshaped(b: Builder, x: Value, wanted: Sequence[int]) -> Value:
    """A reshape; one size may be -1."""
    total = prod(x.shape)
    known = prod(size for size in wanted if size != -1)
    shape = [total // known if size == -1 else size for size in wanted]
    try:
        return regrouped(x, shape, b.batch)
    except Unsupported:
        pass
    try:
        return regrouped(coalesced(b.plain(x), b.batch), shape, b.batch)
    except Unsupported:
        return regrouped(_melted(b, x), shape, b.batch)


def _melted(b: Builder, x: Value) -> Value:
    """With what is before the samples, and what is after them, as one axis each: then they divide in any way."""
    flat = [atom for axis in x.axes for atom in axis]
    at = flat.index(b.batch) if b.batch in flat else 0
    parts = [tuple(flat[:at]), tuple(flat[at + 1 :] if b.batch in flat else flat)]
    x = b.laid(x, tuple(part for part in parts if part))
    first, rest = ((Atom(prod(atom.size for atom in part)),) if part else () for part in parts)
    batch = (b.batch,) if b.batch in flat else ()
    return replace(x, base=tuple(part for part in (first, rest) if part), axes=(first + batch + rest,))


@understands("view", "reshape", "_unsafe_view")
def view(b: Builder, x: Value, wanted: Sequence[int]) -> Value:
    return reshaped(b, x, wanted)


@understands("view_as", "reshape_as")
def view_as(b: Builder, x: Value, other: Value) -> Value:
    return reshaped(b, x, other.shape)


@understands("flatten")
def flatten(b: Builder, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    rank = len(x.axes)
    start, end = start_dim % rank, end_dim % rank
    merged = tuple(atom for axis in x.axes[start : end + 1] for atom in axis)
    return replace(x, axes=(*x.axes[:start], merged, *x.axes[end + 1 :]))


@understands("unflatten")
def unflatten(b: Builder, x: Value, dim: int, wanted: Sequence[int]) -> Value:
    at = dim % len(x.axes)
    known = prod(size for size in wanted if size != -1)
    parts = [x.shape[at] // known if size == -1 else size for size in wanted]
    return reshaped(b, x, [*x.shape[:at], *parts, *x.shape[at + 1 :]])


@understands("permute")
def permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    return replace(x, axes=tuple(x.axes[dim] for dim in dims))


@understands("transpose", "swapaxes", "swapdims")
def transpose(b: Builder, x: Value, one: int, other: int) -> Value:
    axes = list(x.axes)
    axes[one], axes[other] = axes[other], axes[one]
    return replace(x, axes=tuple(axes))


@understands("t", "numpy_T")
def t(b: Builder, x: Value) -> Value:
    return replace(x, axes=x.axes[::-1])


@understands("movedim")
def movedim(b: Builder, x: Value, source: int, destination: int) -> Value:
    rank = len(x.axes)
    order = [i for i in range(rank) if i != source % rank]
    order.insert(destination % rank, source % rank)
    return permute(b, x, order)


@understands("unsqueeze")
def unsqueeze(b: Builder, x: Value, dim: int) -> Value:
    at = dim % (len(x.axes) + 1)
    return replace(x, axes=(*x.axes[:at], (), *x.axes[at:]))


@understands("squeeze")
def squeeze(b: Builder, x: Value, dim: int | Sequence[int] | None = None) -> Value:
    rank = len(x.axes)
    chosen = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    at = {one % rank for one in chosen}
    return replace(x, axes=tuple(axis for i, axis in enumerate(x.axes) if i not in at or axis))


@understands("expand", "expand_as", "broadcast_to")
def expand(b: Builder, x: Value, wanted: Any, implicit: bool = False) -> Value:
    shape = wanted.shape if isinstance(wanted, Value) else tuple(wanted)
    axes = ((),) * (len(shape) - len(x.axes)) + x.axes
    made = []
    for axis, size in zip(axes, shape, strict=True):
        if size in (-1, prod(atom.size for atom in axis)):
            made.append(axis)
        else:
            made.append(_copies(b, size))
    return replace(x, axes=tuple(made))


@understands("repeat")
def repeat(b: Builder, x: Value, times: Sequence[int]) -> Value:
    if all(one == 1 for one in times):
        return x
    axes = ((),) * (len(times) - len(x.axes)) + x.axes
    made = []
    for axis, count in zip(axes, times, strict=True):
        made.append((_copies(b, count) if not axis else (Atom(count),) if count > 1 else ()) + axis)
    return replace(x, axes=tuple(made))


def _copies(b: Builder, count: int) -> Axis:
    """An axis of copies: one for each sample, or several."""
    samples, more = divmod(count, b.batch.size)
    if more:
        return (Atom(count),) if count > 1 else ()
    return (b.batch, Atom(samples)) if samples > 1 else (b.batch,)


@understands("repeat_interleave")
def repeat_interleave(b: Builder, x: Value, repeats: Any, dim: int | None = None, output_size: Any = None) -> Value:
    if dim is None or not isinstance(repeats, int):
        raise Unsupported("repetitions by a tensor")
    if repeats == 1:
        return x
    at = dim % len(x.axes)
    return replace(x, axes=(*x.axes[:at], (*x.axes[at], Atom(repeats)), *x.axes[at + 1 :]))


# parts


@understands("slice")
def slice_(b: Builder, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value | Constant:
    at = dim % len(x.axes)
    begin, stop, _ = slice(start, end).indices(x.shape[at])
    if stop <= begin:
        shape = [0 if i == at else size for i, size in enumerate(x.shape)]
        return Constant(torch.zeros(shape), computed="nothing")
    if step != 1:
        return _every(b, x, at, begin, stop, step)
    return b.sliced(x, at, begin, stop)


def _every(b: Builder, x: Value, at: int, start: int, stop: int, step: int) -> Value:
    """Every `step`-th position, where steps divide the axis: a position of each of its parts."""
    size = x.shape[at]
    if size % step or start >= step or -(-(stop - start) // step) != size // step:
        places = range(start, stop, step)
        if len(places) > MOST_PARTS:
            raise Unsupported(f"every {step}th of {size} positions")
        return cat(b, [b.sliced(x, at, i, i + 1) for i in places], at)
    apart = reshaped(b, x, [*x.shape[:at], size // step, step, *x.shape[at + 1 :]])
    return select(b, apart, at + 1, start)


@understands("select")
def select(b: Builder, x: Value, dim: int, index: int) -> Value:
    at = dim % len(x.axes)
    index %= x.shape[at]
    part = b.sliced(x, at, index, index + 1)
    return replace(part, axes=(*part.axes[:at], *part.axes[at + 1 :]))


@understands("copy")
def copy(b: Builder, x: Value | Constant, source: Value | Constant, blocking: bool = False) -> Value:
    """What is written over a tensor."""
    shape = x.shape if isinstance(x, Value) else tuple(x.tensor.shape)
    return expand(b, valued(b, source), shape)


@understands("slice_scatter")
def slice_scatter(
    b: Builder, x: Value | Constant, part: Value | Constant, dim: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Value:  # fmt: skip
    """A tensor with other positions of an axis."""
    x = valued(b, x)
    at = dim % len(x.axes)
    size = x.shape[at]
    begin, stop, _ = slice(start, end).indices(size)
    if step != 1:
        raise Unsupported(f"every {step}th of {size} positions")
    if (begin, stop) == (0, size):
        return valued(b, part)
    around = [b.sliced(x, at, 0, begin)] if begin else []
    after = [b.sliced(x, at, stop, size)] if stop < size else []
    return cat(b, [*around, part, *after], at)


@understands("select_scatter")
def select_scatter(b: Builder, x: Value | Constant, part: Value | Constant, dim: int, index: int) -> Value:
    """A tensor with another position of an axis."""
    at = dim % len(valued(b, x).axes)
    index %= valued(b, x).shape[at]
    return slice_scatter(b, x, unsqueeze(b, valued(b, part), at), at, index, index + 1)


@understands("narrow")
def narrow(b: Builder, x: Value, dim: int, start: int, length: int) -> Value:
    return b.sliced(x, dim % len(x.axes), start, start + length)


@understands("unbind")
def unbind(b: Builder, x: Value, dim: int = 0) -> list[Value]:
    return [select(b, x, dim, i) for i in range(x.shape[dim % len(x.axes)])]


@understands("split", "split_with_sizes")
def split(b: Builder, x: Value, sizes: int | Sequence[int], dim: int = 0) -> list[Value]:
    at = dim % len(x.axes)
    whole = x.shape[at]
    lengths = [min(sizes, whole - i) for i in range(0, whole, sizes)] if isinstance(sizes, int) else list(sizes)
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [b.sliced(x, at, end - length, end) for end, length in zip(ends, lengths, strict=True)]


@understands("chunk", "tensor_split")
def chunk(b: Builder, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    return split(b, x, -(-x.shape[dim % len(x.axes)] // chunks), dim)


def positions(b: Builder, x: Value, dim: int, index: Constant) -> Value:
    """Those of an axis that are known."""
    at = dim % len(x.axes)
    places = [place % x.shape[at] for place in index.tensor.tolist()]
    return cat(b, [b.sliced(x, at, i, i + 1) for i in places], at)


@understands("index")
def index(b: Builder, x: Value, places: Sequence[Constant | Value | None]) -> Value:
    given = [(i, one) for i, one in enumerate(places) if one is not None]
    if len(given) == 1:
        at, one = given[0]
        if (
            isinstance(one, Constant)
            and one.tensor.dim() == 1
            and one.tensor.numel() <= MOST_PARTS
            and one.tensor.dtype != torch.bool
        ):
            return positions(b, x, at, one)
    known = [one for one in places if isinstance(one, Constant)]
    if len(known) == len(places) and (found := _in_order(x, known)) is not None:
        return found
    if len(places) == 2 and isinstance(places[0], Constant) and isinstance(places[1], Value):
        samples = places[0].tensor.reshape(-1)
        if x.axes[0] == (b.batch,) and torch.equal(samples, torch.arange(b.batch.size)):
            return _gathered(b, x, places[1])
    raise Unsupported("a lookup by positions")


def _in_order(x: Value, places: Sequence[Constant]) -> Value | None:
    """All positions of the first axes in their order, which another axis of the result is for each."""
    shape = torch.broadcast_shapes(*(one.tensor.shape for one in places))
    axes: list[Axis | None] = [None if size > 1 else () for size in shape]
    for i, one in enumerate(places):
        size = x.shape[i]
        long = [at for at, length in enumerate(one.tensor.shape, len(shape) - one.tensor.dim()) if length > 1]
        if len(long) > 1 or not torch.equal(one.tensor.reshape(-1), torch.arange(size)):
            return None
        if long and axes[long[0]] is not None:
            return None
        if long:
            axes[long[0]] = x.axes[i]
    known = tuple(axis for axis in axes if axis is not None)
    return replace(x, axes=(*known, *x.axes[len(places) :])) if len(known) == len(axes) else None


def _gathered(b: Builder, x: Value, places: Value) -> Value:
    """Positions of tokens [B, N, D] or of numbers [B, N], which other numbers of each sample say."""
    if len(x.axes) not in (2, 3) or places.axes[:1] != ((b.batch,),) or b.batch in sum(places.axes[1:], ()):
        raise Unsupported("a lookup by positions")
    x = b.laid(x, x.axes[1:])
    flat = tuple(atom for axis in places.axes[1:] for atom in axis)
    node = b.add(Gather(), b.node(x), b.node(b.laid(places, (flat,))))
    return Value(node, (flat, *x.base[1:]), ((b.batch,), *places.axes[1:], *x.axes[2:]), x.dtype)


# several as one


@understands("cat", "concat", "concatenate")
def cat(b: Builder, tensors: Sequence[Value | Constant], dim: int = 0) -> Value:
    given = [x for x in tensors if not isinstance(x, Constant) or x.tensor.numel()]
    at = dim % len(valued(b, given[0]).axes)
    known = any(isinstance(x, Value) and b.batch in x.axes[0] for x in given)
    values = [valued(b, x, at if known and at else None) for x in given]
    if len(values) == 1:
        return values[0]
    if any(set(v.axes[at]) - set(v.atoms) for v in values):
        raise Unsupported("a concatenation of copies, or along the batch")
    marked = [_marked(b, v, at) for v in values]
    made = [v for v in marked if not isinstance(v.node, Constant)]
    lead = max(made or marked, key=lambda v: prod(atom.size for atom in v.atoms if atom not in v.axes[at]))
    mark = lead.axes[at]
    nodes = []
    for v in marked:
        if v.axes[at] != mark:
            head = replace(lead, axes=(*lead.axes[:at], (), *lead.axes[at + 1 :]))
            head, other = aligned_beside(b, head, v)
            lead = replace(head, axes=(*head.axes[:at], mark, *head.axes[at + 1 :]))
            v = b.laid(other, tuple(other.axes[at] if axis == mark else axis for axis in lead.base))
        nodes.append(b.node(v))
    axis = lead.base.index(mark)
    node = b.joined(nodes, axis)
    whole = (Atom(sum(v.shape[at] for v in values)),)
    base = tuple(whole if i == axis else one for i, one in enumerate(lead.base))
    axes = tuple(whole if i == at else one for i, one in enumerate(lead.axes))
    if len(axes[0]) == 0:  # the first tensor may be one for all samples
        axes = (next((v.axes[0] for v in marked if v.axes[0]), ()), *axes[1:])
    return Value(node, base, axes, lead.dtype)


def _marked(b: Builder, x: Value, at: int) -> Value:
    """With an axis that is one atom, and an axis of the base."""
    x, place = b.isolated(x, at)
    mark = (Atom(x.shape[at]),)
    base = tuple(mark if i == place else axis for i, axis in enumerate(x.base))
    return replace(x, base=base, axes=(*x.axes[:at], mark, *x.axes[at + 1 :]))


@understands("stack")
def stack(b: Builder, tensors: Sequence[Value | Constant], dim: int = 0) -> Value:
    values = [valued(b, x) for x in tensors]
    return cat(b, [unsqueeze(b, v, dim) for v in values], dim)


@understands("roll")
def roll(b: Builder, x: Value, shifts: Any, dims: Any = ()) -> Value:
    shifts, dims = ([v] if isinstance(v, int) else list(v) for v in (shifts, dims))
    if not dims:
        raise Unsupported("a roll of all numbers")
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if shift % size:
            parts = b.sliced(x, dim, size - shift % size, size), b.sliced(x, dim, 0, size - shift % size)
            x = cat(b, parts, dim)
    return x


@understands("flip")
def flip(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    for dim in dims:
        positions = range(x.shape[dim] - 1, -1, -1)
        x = cat(b, [b.sliced(x, dim % len(x.axes), i, i + 1) for i in positions], dim)
    return x


@understands("pixel_shuffle")
def pixel_shuffle(b: Builder, x: Value, factor: int) -> Value:
    return mapped_map(b, archir_resize.PixelShuffle(factor), x)


@understands("pixel_unshuffle")
def pixel_unshuffle(b: Builder, x: Value, factor: int) -> Value:
    return mapped_map(b, archir_resize.PixelUnshuffle(factor), x)


@understands("channel_shuffle")
def channel_shuffle(b: Builder, x: Value, groups: int) -> Value:
    return mapped_map(b, shape.ChannelShuffle(groups), x)


def mapped_map(b: Builder, op: Op, x: Value) -> Value:
    """An operation on a map."""
    x = b.map(x)
    node = b.add(op, b.node(x))
    base = fresh(b.types[node].shape)
    return Value(node, base, ((b.batch,), *base))
