"""Import of reductions, pooling and resizing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from archir.ir.op import Op
from archir.ops import pool, resize, shape
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Axis, Unsupported, Value, base_without_batch, new_axes
from archir_torch.importing.operators.elementwise import add, mul
from archir_torch.importing.operators.elementwise import maximum as larger
from archir_torch.importing.operators.elementwise import power as _power
from archir_torch.importing.operators.layers import _padding, _per_axis, collapse_sizes
from archir_torch.importing.operators.masks import argmax
from archir_torch.importing.operators.movement import MAX_PARTS, cat
from archir_torch.importing.rules import torch_operator


def reduce_axes(
    b: Builder, x: Value, dims: Sequence[int], keep: bool, global_op: type[Op] | None, axis_op: Any
) -> Value:
    """Reduce axes of a value.

    If only channels remain, the operation `global_op` is used; otherwise, `axis_op` reduces one axis after the other.
    `keep` keeps the reduced axes with size 1.
    """
    rank = len(x.axes)
    reduced_axes = sorted(dim % rank for dim in dims)
    reduced_atoms = {atom for dim in reduced_axes for atom in x.axes[dim]}
    if b.batch in reduced_atoms:
        raise Unsupported("a reduction along the batch")
    kept_axes: list[Axis] = [() if i in reduced_axes else axis for i, axis in enumerate(x.axes)]
    axes = tuple(axis for i, axis in enumerate(kept_axes) if keep or i not in reduced_axes)
    if reduced_atoms - set(x.atoms):
        raise Unsupported("a reduction of expanded axes")
    if not reduced_atoms:
        return replace(x, axes=axes)
    channels = {atom for axis in kept_axes for atom in axis} - {b.batch}
    if global_op is not None:
        for base in (x.base, (*(axis for axis in base_without_batch(x.axes, b.batch)),)):
            position = 0 if len(base) >= 3 else len(base) - 1
            if len(base) in (2, 3, 4) and set(base[position]) == channels and channels:
                x = b.with_base(x, base)
                return Value(b.add(global_op(), b.node(x)), (base[position],), axes)
    for dim in reduced_axes:
        if x.axes[dim]:
            x, position = b.isolate_axis(x, dim)
            if not position and len(x.base) == 0:
                raise Unsupported("a reduction of a single number")
            node = b.add(axis_op(position), b.node(x))
            base = tuple(() if i == position else axis for i, axis in enumerate(x.base))
            x = Value(node, base, tuple(() if i == dim else axis for i, axis in enumerate(x.axes)))
    return replace(x, axes=axes)


def axes_of(x: Value, dim: Any) -> list[int]:
    """Return the axes of a reduction. Raises Unsupported if `dim` is None, since all axes include the batch."""
    if dim is None:
        raise Unsupported("a reduction along the batch")
    return [dim] if isinstance(dim, int) else list(dim) or list(range(len(x.axes)))


@torch_operator("mean")
def mean(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Import means along axes."""
    return reduce_axes(b, x, axes_of(x, dim), keepdim, pool.GlobalAvgPool, pool.MeanOver)


@torch_operator("sum")
def sum_(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Import sums along axes."""
    return reduce_axes(b, x, axes_of(x, dim), keepdim, None, pool.SumOver)


@torch_operator("amax")
def amax(b: Builder, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """Import maxima along axes."""
    return reduce_axes(b, x, axes_of(x, dim), keepdim, pool.GlobalMaxPool, pool.MaxOver)


@torch_operator("max")
def max_(b: Builder, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Import the element-wise maximum of two tensors, or maxima along an axis together with their positions."""
    if isinstance(dim, Value | Constant) or not isinstance(x, Value):
        return larger(b, x, dim)
    return [amax(b, x, dim, keepdim), _argmax_if_supported(b, x, dim, keepdim)]


def _argmax_if_supported(b: Builder, x: Value, dim: Any, keep: bool) -> Value | None:
    """Return the positions of maxima; None if they cannot be imported.

    None is not an error, because most callers of torch's `max` ignore the positions.
    """
    try:
        return argmax(b, x, dim, keep)
    except Unsupported:
        return None


@torch_operator("linalg_vector_norm", "norm")
def vector_norm(b: Builder, x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Import Euclidean norms along axes."""
    if ord != 2:
        raise Unsupported(f"a norm of order {ord}")
    squares = reduce_axes(b, _power(b, x, 2), axes_of(x, dim), keepdim, None, pool.SumOver)
    return _power(b, squares, 0.5)


# pooling


def _tokens_or_map(b: Builder, x: Value, spatial: int) -> Value:
    """Return a value with the base of tokens, maps or volumes, depending on its number of spatial axes."""
    if spatial > 1:
        return b.as_map(x, spatial)
    if len(x.axes) != 3 or x.axes[0] != (b.batch,):
        raise Unsupported(f"a pooling of tokens with the shape {list(x.shape)}")
    return b.with_base(x, (x.axes[2], x.axes[1]))


def _apply_pool(b: Builder, x: Value, op: Op, spatial: int) -> Value:
    """Apply a pooling operation to a value with this number of spatial axes."""
    x = _tokens_or_map(b, x, spatial)
    node = b.add(op, b.node(x))
    sizes = b.types[node].shape
    result_axes = new_axes(sizes)
    base = (result_axes[0], x.base[1]) if spatial == 1 else (x.base[0], *result_axes[1:])
    return Value(node, base, ((b.batch,), *((base[1], base[0]) if spatial == 1 else base)))


MAX = {1: pool.MaxPool1d, 2: pool.MaxPool, 3: pool.MaxPool3d}
"""Max pooling operation by number of spatial axes."""
AVG = {1: pool.AvgPool1d, 2: pool.AvgPool, 3: pool.AvgPool3d}
"""Average pooling operation by number of spatial axes."""


def _window_arguments(x: Value, spatial: int, kernel: Any, stride: Any, padding: Any, ceil: bool) -> Any:
    """Return kernel, stride and padding in the form of archir's attributes.

    Also returns whether rounding sizes up requires additional padding at the end.
    """
    kernels = _per_axis(kernel, spatial)
    strides = _per_axis(stride, spatial) if stride not in (None, []) and stride != () else kernels
    pads = _per_axis(padding, spatial)
    sizes = x.shape[-spatial:]
    after = list(pads)
    if ceil:
        for i, (size, k, s, p) in enumerate(zip(sizes, kernels, strides, pads, strict=True)):
            count = -(-(size + 2 * p - k) // s) + 1
            if (count - 1) * s >= size + p:
                count -= 1
            after[i] = max(p, (count - 1) * s + k - size - p)
    if list(pads) == after:
        op_padding: Any = _padding(pads, kernels, (1,) * spatial)
    else:
        pairs = [(p, a) for p, a in zip(pads, after, strict=True)]
        order = pairs[::-1] if spatial == 2 else pairs
        op_padding = tuple(side for pair in order for side in pair)
    return collapse_sizes(kernels, spatial), collapse_sizes(strides, spatial), op_padding, list(pads) != after


def _max_pool(spatial: int) -> Any:
    """Return the import function of max pooling for this number of spatial axes."""

    def of(
        b: Builder, x: Value, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil: bool = False
    ) -> Value:
        if set(_per_axis(dilation, spatial)) != {1}:
            raise Unsupported("dilated pooling")
        kernel, stride, op_padding, _ = _window_arguments(x, spatial, kernel, stride, padding, ceil)
        return _apply_pool(b, x, MAX[spatial](kernel, stride, op_padding), spatial)

    return of


@torch_operator("widened")
def widened(
    b: Builder, x: Value, pads: Sequence[int], kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil: bool = False,
) -> Value:  # fmt: skip
    """Import max pooling of a map that is first padded with -inf (left, right, top, bottom)."""
    if set(_per_axis(dilation, 2)) != {1} or ceil or min(pads) < 0:
        raise Unsupported("dilated max pooling, or with sizes rounded up, after padding with -inf")
    kernel, stride, _, _ = _window_arguments(x, 2, kernel, stride, 0, False)
    return _apply_pool(b, x, pool.MaxPool(kernel, stride, tuple(pads)), 2)


def _avg_pool(spatial: int) -> Any:
    """Return the import function of average pooling for this number of spatial axes."""

    def of(
        b: Builder, x: Value, kernel: Any, stride: Any = None, padding: Any = 0, ceil: bool = False,
        count_include_pad: bool = True, divisor: Any = None,
    ) -> Value:  # fmt: skip
        if divisor is not None:
            raise Unsupported("average pooling with a divisor")
        kernels = _per_axis(kernel, spatial)
        is_global = kernels == x.shape[-spatial:] and kernels != _per_axis(stride or kernel, spatial)  # may downsample
        kernel, stride, op_padding, rounds_up = _window_arguments(x, spatial, kernel, stride, padding, ceil)
        padded = any(_per_axis(padding, spatial))
        if is_global and not padded:
            return reduce_axes(b, x, range(2, spatial + 2), True, pool.GlobalAvgPool, pool.MeanOver)
        if rounds_up and padded and count_include_pad:
            raise Unsupported("average pooling that counts some of the padding")
        return _apply_pool(b, x, AVG[spatial](kernel, stride, op_padding, count_include_pad and padded), spatial)

    return of


for _n in (1, 2, 3):
    torch_operator(f"max_pool{_n}d")(_max_pool(_n))
    torch_operator(f"avg_pool{_n}d")(_avg_pool(_n))


def _adaptive(global_op: type[Op], adaptive_op: type[pool.AdaptiveAvgPool]) -> Any:
    """Return the import function of adaptive pooling.

    Pooling to size 1 becomes global pooling, and pooling to a divisor of the size plain pooling.
    """

    def of(b: Builder, x: Value, size: Any) -> Value:
        rank = len(x.axes) - 2
        sizes = _per_axis(size, rank)
        if set(sizes) == {1}:
            along = pool.MeanOver if global_op is pool.GlobalAvgPool else pool.MaxOver
            return reduce_axes(b, x, range(2, rank + 2), True, global_op, along)
        if sizes == x.shape[2:]:
            return x
        if all(old % new == 0 for old, new in zip(x.shape[2:], sizes, strict=True)):
            kernel = collapse_sizes([old // new for old, new in zip(x.shape[2:], sizes, strict=True)], rank)
            kinds = AVG if global_op is pool.GlobalAvgPool else MAX
            return _apply_pool(b, x, kinds[rank](kernel, kernel, "valid"), rank)
        for axis in range(rank):
            if x.shape[2 + axis] < sizes[axis]:
                x = _pool_to_more(b, x, 2 + axis, sizes[axis], global_op is pool.GlobalAvgPool)
                return of(b, x, size)
        if rank != 2:
            raise Unsupported("adaptive pooling of other axes than height and width to unequal parts")
        return _apply_pool(b, x, adaptive_op(collapse_sizes(sizes, 2)), 2)

    return of


def _pool_to_more(b: Builder, x: Value, axis: int, parts: int, average: bool) -> Value:
    """Import adaptive pooling of an axis to more parts than it has positions.

    Each part consists of one position, or of two adjacent ones.
    """
    count = x.shape[axis]
    if parts > MAX_PARTS:
        raise Unsupported(f"{count} positions in {parts} parts")
    parts_by_range: dict[tuple[int, int], Value] = {}
    places = [(i * count // parts, -(-(i + 1) * count // parts)) for i in range(parts)]
    for first, end in dict.fromkeys(places):
        part = b.slice_axis(x, axis, first, first + 1)
        if end - first > 1:
            other = b.slice_axis(x, axis, end - 1, end)
            part = mul(b, add(b, part, other), 0.5) if average else larger(b, part, other)
        parts_by_range[first, end] = part
    return cat(b, [parts_by_range[place] for place in places], axis)


torch_operator("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")(
    _adaptive(pool.GlobalAvgPool, pool.AdaptiveAvgPool)
)


@torch_operator("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(b: Builder, x: Value, size: Any) -> Any:
    """Import adaptive max pooling, without the positions of the maxima."""
    return [_adaptive(pool.GlobalMaxPool, pool.AdaptiveMaxPool)(b, x, size), None]


# resizing


def resize_map(b: Builder, x: Value, size: Any, scales: Any, mode: Any, corners: bool) -> Value:
    """Import the resizing of a feature map to another height and width."""
    height, width = x.shape[2:]
    if size is not None:
        target = tuple(size)
    else:
        target = tuple(int(old * factor) for old, factor in zip((height, width), scales, strict=True))
    if target == (height, width):
        return x
    factor = target[0] // height
    if mode == "nearest" and target == (height * factor, width * factor):
        return _apply_pool(b, x, shape.Upsample(factor), 2)
    return _apply_pool(b, x, resize.Resize(collapse_sizes(target, 2), None, mode, corners), 2)


@torch_operator("upsample_nearest2d")
def upsample_nearest2d(b: Builder, x: Value, size: Any = None, scales: Any = None, *_: Any) -> Value:
    """Import nearest-neighbour resizing of a feature map."""
    return resize_map(b, x, size, scales, "nearest", False)


@torch_operator("upsample_bilinear2d")
def upsample_bilinear2d(b: Builder, x: Value, size: Any, align_corners: bool, scales: Any = None, *_: Any) -> Value:
    """Import bilinear resizing of a feature map."""
    return resize_map(b, x, size, scales, "bilinear", align_corners)


@torch_operator("upsample_bicubic2d")
def upsample_bicubic2d(b: Builder, x: Value, size: Any, align_corners: bool, scales: Any = None, *_: Any) -> Value:
    """Import bicubic resizing of a feature map."""
    return resize_map(b, x, size, scales, "bicubic", align_corners)
