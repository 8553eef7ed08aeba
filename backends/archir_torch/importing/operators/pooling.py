"""Operators that make one number of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from archir.ir.op import Op
from archir.ops import pool, resize, shape
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Axis, Unsupported, Value, fresh, plain
from archir_torch.importing.operators.elementwise import add, mul
from archir_torch.importing.operators.elementwise import maximum as larger
from archir_torch.importing.operators.elementwise import power as _power
from archir_torch.importing.operators.layers import _all, _zeros, one_or_each
from archir_torch.importing.operators.masks import argmax
from archir_torch.importing.operators.movement import MOST_PARTS, cat
from archir_torch.importing.rules import understands


def over(b: Builder, x: Value, dims: Sequence[int], keep: bool, whole: type[Op] | None, along: Any) -> Value:
    """A reduction along axes: by `whole` where only channels are left, else by `along` for one axis after the other."""
    rank = len(x.axes)
    at = sorted(dim % rank for dim in dims)
    gone = {atom for dim in at for atom in x.axes[dim]}
    if b.batch in gone:
        raise Unsupported("a reduction along the batch")
    left: list[Axis] = [() if i in at else axis for i, axis in enumerate(x.axes)]
    axes = tuple(axis for i, axis in enumerate(left) if keep or i not in at)
    if gone - set(x.atoms):
        raise Unsupported("a reduction of copies")
    if not gone:
        return replace(x, axes=axes)
    channels = {atom for axis in left for atom in axis} - {b.batch}
    if whole is not None:
        for base in (x.base, (*(axis for axis in plain(x.axes, b.batch)),)):
            place = 0 if len(base) >= 3 else len(base) - 1
            if len(base) in (2, 3, 4) and set(base[place]) == channels and channels:
                x = b.laid(x, base)
                return Value(b.add(whole(), b.node(x)), (base[place],), axes)
    for dim in at:
        if x.axes[dim]:
            x, place = b.isolated(x, dim)
            if not place and len(x.base) == 0:
                raise Unsupported("a reduction of a number")
            node = b.add(along(place), b.node(x))
            base = tuple(() if i == place else axis for i, axis in enumerate(x.base))
            x = Value(node, base, tuple(() if i == dim else axis for i, axis in enumerate(x.axes)))
    return replace(x, axes=axes)


def axes_of(x: Value, dim: Any) -> list[int]:
    """Which axes are reduced. All of them would be those of the samples, too."""
    if dim is None:
        raise Unsupported("a reduction along the batch")
    return [dim] if isinstance(dim, int) else list(dim) or list(range(len(x.axes)))


@understands("mean")
def mean(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    return over(b, x, axes_of(x, dim), keepdim, pool.GlobalAvgPool, pool.MeanOver)


@understands("sum")
def total(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    return over(b, x, axes_of(x, dim), keepdim, None, pool.SumOver)


@understands("amax")
def largest(b: Builder, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    return over(b, x, axes_of(x, dim), keepdim, pool.GlobalMaxPool, pool.MaxOver)


@understands("max")
def maximum(b: Builder, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, Value | Constant) or not isinstance(x, Value):
        return larger(b, x, dim)
    return [largest(b, x, dim, keepdim), _where(b, x, dim, keepdim)]


def _where(b: Builder, x: Value, dim: Any, keep: bool) -> Value | None:
    """The positions of the largest numbers, if they can be had: most who ask for the numbers do not read them."""
    try:
        return argmax(b, x, dim, keep)
    except Unsupported:
        return None


@understands("linalg_vector_norm", "norm")
def length(b: Builder, x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    if ord != 2:
        raise Unsupported("a length that is not the usual one")
    squares = over(b, _power(b, x, 2), axes_of(x, dim), keepdim, None, pool.SumOver)
    return _power(b, squares, 0.5)


# windows of maps


def _tokens_or_map(b: Builder, x: Value, spatial: int) -> Value:
    if spatial > 1:
        return b.map(x, spatial)
    if len(x.axes) != 3 or x.axes[0] != (b.batch,):
        raise Unsupported(f"a pooling of the tokens of {list(x.shape)}")
    return b.laid(x, (x.axes[2], x.axes[1]))


def _pooled(b: Builder, x: Value, op: Op, spatial: int) -> Value:
    x = _tokens_or_map(b, x, spatial)
    node = b.add(op, b.node(x))
    sizes = b.types[node].shape
    wanted = fresh(sizes)
    base = (wanted[0], x.base[1]) if spatial == 1 else (x.base[0], *wanted[1:])
    return Value(node, base, ((b.batch,), *((base[1], base[0]) if spatial == 1 else base)))


MAX = {1: pool.MaxPool1d, 2: pool.MaxPool, 3: pool.MaxPool3d}
AVG = {1: pool.AvgPool1d, 2: pool.AvgPool, 3: pool.AvgPool3d}


def _windows(b: Builder, x: Value, spatial: int, kernel: Any, stride: Any, padding: Any, ceil: bool) -> Any:
    """Kernel, stride and padding as archir has them; more zeros after, where sizes are rounded up."""
    kernels = _all(kernel, spatial)
    strides = _all(stride, spatial) if stride not in (None, []) and stride != () else kernels
    pads = _all(padding, spatial)
    sizes = x.shape[-spatial:]
    after = list(pads)
    if ceil:
        for i, (size, k, s, p) in enumerate(zip(sizes, kernels, strides, pads, strict=True)):
            count = -(-(size + 2 * p - k) // s) + 1
            if (count - 1) * s >= size + p:
                count -= 1
            after[i] = max(p, (count - 1) * s + k - size - p)
    if list(pads) == after:
        zeros: Any = _zeros(pads, kernels, strides, (1,) * spatial)
    else:
        pairs = [(p, a) for p, a in zip(pads, after, strict=True)]
        order = pairs[::-1] if spatial == 2 else pairs
        zeros = tuple(one for pair in order for one in pair)
    return one_or_each(kernels, spatial), one_or_each(strides, spatial), zeros, list(pads) != after


def _max_pool(spatial: int) -> Any:
    def of(
        b: Builder, x: Value, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil: bool = False
    ) -> Value:
        if set(_all(dilation, spatial)) != {1}:
            raise Unsupported("a pooling with gaps")
        kernel, stride, zeros, _ = _windows(b, x, spatial, kernel, stride, padding, ceil)
        return _pooled(b, x, MAX[spatial](kernel, stride, zeros), spatial)

    return of


@understands("widened")
def widened(
    b: Builder, x: Value, pads: Sequence[int], kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil: bool = False,
) -> Value:  # fmt: skip
    """A max pool with zeros (left, right, top, bottom) that count for nothing."""
    if set(_all(dilation, 2)) != {1} or ceil or min(pads) < 0:
        raise Unsupported("a pooling with gaps, or of sizes that are rounded up")
    kernel, stride, _, _ = _windows(b, x, 2, kernel, stride, 0, False)
    return _pooled(b, x, pool.MaxPool(kernel, stride, tuple(pads)), 2)


def _avg_pool(spatial: int) -> Any:
    def of(
        b: Builder, x: Value, kernel: Any, stride: Any = None, padding: Any = 0, ceil: bool = False,
        count_include_pad: bool = True, divisor: Any = None,
    ) -> Value:  # fmt: skip
        if divisor is not None:
            raise Unsupported("a mean by another number")
        kernels = _all(kernel, spatial)
        whole = kernels == x.shape[-spatial:] and kernels != _all(stride or kernel, spatial)  # else it may halve
        kernel, stride, zeros, more = _windows(b, x, spatial, kernel, stride, padding, ceil)
        padded = any(_all(padding, spatial))
        if whole and not padded:
            return over(b, x, range(2, spatial + 2), True, pool.GlobalAvgPool, pool.MeanOver)
        if more and padded and count_include_pad:
            raise Unsupported("a mean that counts some of what is padded")
        return _pooled(b, x, AVG[spatial](kernel, stride, zeros, count_include_pad and padded), spatial)

    return of


for _n in (1, 2, 3):
    understands(f"max_pool{_n}d")(_max_pool(_n))
    understands(f"avg_pool{_n}d")(_avg_pool(_n))


def _adaptive(whole: type[Op], parts: type[pool.AdaptiveAvgPool]) -> Any:
    def of(b: Builder, x: Value, size: Any) -> Value:
        rank = len(x.axes) - 2
        sizes = _all(size, rank)
        if set(sizes) == {1}:
            along = pool.MeanOver if whole is pool.GlobalAvgPool else pool.MaxOver
            return over(b, x, range(2, rank + 2), True, whole, along)
        if sizes == x.shape[2:]:
            return x
        if all(old % new == 0 for old, new in zip(x.shape[2:], sizes, strict=True)):
            kernel = one_or_each([old // new for old, new in zip(x.shape[2:], sizes, strict=True)], rank)
            kinds = AVG if whole is pool.GlobalAvgPool else MAX
            return _pooled(b, x, kinds[rank](kernel, kernel, "valid"), rank)
        for axis in range(rank):
            if x.shape[2 + axis] < sizes[axis]:
                x = _more(b, x, 2 + axis, sizes[axis], whole is pool.GlobalAvgPool)
                return of(b, x, size)
        if rank != 2:
            raise Unsupported("parts of other axes than height and width, of unequal sizes")
        return _pooled(b, x, parts(one_or_each(sizes, 2)), 2)

    return of


def _more(b: Builder, x: Value, axis: int, parts: int, average: bool) -> Value:
    """More parts of an axis than it has positions: each is of one position, or of two that lie beside each other."""
    count = x.shape[axis]
    if parts > MOST_PARTS:
        raise Unsupported(f"{count} positions in {parts} parts")
    made: dict[tuple[int, int], Value] = {}
    places = [(i * count // parts, -(-(i + 1) * count // parts)) for i in range(parts)]
    for first, end in dict.fromkeys(places):
        part = b.sliced(x, axis, first, first + 1)
        if end - first > 1:
            other = b.sliced(x, axis, end - 1, end)
            part = mul(b, add(b, part, other), 0.5) if average else larger(b, part, other)
        made[first, end] = part
    return cat(b, [made[place] for place in places], axis)


understands("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")(
    _adaptive(pool.GlobalAvgPool, pool.AdaptiveAvgPool)
)


@understands("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(b: Builder, x: Value, size: Any) -> Any:
    return [_adaptive(pool.GlobalMaxPool, pool.AdaptiveMaxPool)(b, x, size), None]


# maps of other sizes


def resized(b: Builder, x: Value, size: Any, scales: Any, mode: Any, corners: bool) -> Value:
    """A map of other height and width."""
    height, width = x.shape[2:]
    if size is not None:
        wanted = tuple(size)
    else:
        wanted = tuple(int(old * by) for old, by in zip((height, width), scales, strict=True))
    if wanted == (height, width):
        return x
    by = wanted[0] // height
    if mode == "nearest" and wanted == (height * by, width * by):
        return _pooled(b, x, shape.Upsample(by), 2)
    return _pooled(b, x, resize.Resize(one_or_each(wanted, 2), None, mode, corners), 2)


@understands("upsample_nearest2d")
def nearest(b: Builder, x: Value, size: Any = None, scales: Any = None, *_: Any) -> Value:
    return resized(b, x, size, scales, "nearest", False)


@understands("upsample_bilinear2d")
def bilinear(b: Builder, x: Value, size: Any, align_corners: bool, scales: Any = None, *_: Any) -> Value:
    return resized(b, x, size, scales, "bilinear", align_corners)


@understands("upsample_bicubic2d")
def bicubic(b: Builder, x: Value, size: Any, align_corners: bool, scales: Any = None, *_: Any) -> Value:
    return resized(b, x, size, scales, "bicubic", align_corners)
