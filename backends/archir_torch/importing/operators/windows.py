"""Zeros and other numbers around tensors, and windows of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch

from archir.ops import shape
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axis, Unsupported, Value, plain, sizes
from archir_torch.importing.operators.elementwise import add
from archir_torch.importing.operators.movement import (
    MOST_PARTS,
    cat,
    movedim,
    permute,
    reshaped,
    select,
    squeeze,
    stack,
    unsqueeze,
)
from archir_torch.importing.rules import understands


@understands("constant_pad_nd", "pad")
def pad(b: Builder, x: Value, pads: Sequence[int], mode: Any = "constant", value: Any = None) -> Value:
    value = value if isinstance(mode, str) else mode
    if isinstance(mode, str) and mode != "constant":
        return _mirrored(b, x, pads, mode)
    rank = len(x.axes)
    for i in range(0, len(pads), 2):  # less than nothing is cut off
        axis = rank - 1 - i // 2
        before, after = pads[i], pads[i + 1]
        x = b.sliced(x, axis, max(0, -before), x.shape[axis] - max(0, -after))
    pads = [max(0, one) for one in pads]
    if not any(pads):
        return x
    if value not in (None, 0, 0.0):
        return _filled(b, x, pads, float(value))
    amounts = {rank - 1 - i // 2: (pads[i], pads[i + 1]) for i in range(0, len(pads), 2) if pads[i] or pads[i + 1]}
    if any(b.batch in x.axes[axis] for axis in amounts):
        raise Unsupported("a padding along the batch")
    if rank == 2 and set(x.axes[0]) - {b.batch}:  # rows beside samples: a map of one row for each
        return squeeze(b, pad(b, unsqueeze(b, x, 1), pads), 1)
    known = [(1, 2), (2, 3)] if rank == 4 else [(rank - 2, rank - 1)]  # channels may be last
    maps = [(at, base) for at in known if set(amounts) <= {*at} and (base := _as_map(b, x, at))] if rank > 2 else []
    places = next((one for one in maps if one[1] == x.base), None) or _as_it_lies(x, amounts) or next(iter(maps), None)
    if places is None:
        return _filled(b, x, pads, 0.0)
    (rows, columns), base = places
    x = b.laid(x, base)
    zeros = [amounts.get(columns, (0, 0)), amounts.get(rows, (0, 0))]
    node = b.add(shape.Pad(_pads(zeros)), b.node(x))
    new = {axis: (Atom(x.shape[axis] + sum(by)),) for axis, by in amounts.items()}
    axes = tuple(new.get(i, axis) for i, axis in enumerate(x.axes))
    return replace(x, node=node, base=(base[0], new.get(rows, base[1]), new.get(columns, base[2])), axes=axes)


Places = tuple[tuple[int, int], tuple[Axis, Axis, Axis]]
"""The axes of a value that are height and width, or -1, and the layout of the map that they are of."""


def _as_it_lies(x: Value, amounts: Mapping[int, tuple[int, int]]) -> Places | None:
    """Of one axis that gets zeros: what is before it and behind it, in the order that it has."""
    (axis, *more) = amounts
    atoms, wanted = tuple(x.atoms), x.axes[axis]
    starts = [i for i in range(len(atoms) - len(wanted) + 1) if atoms[i : i + len(wanted)] == wanted]
    if more or not wanted or len(starts) != 1:
        return None
    before, after = atoms[: starts[0]], atoms[starts[0] + len(wanted) :]
    if after:
        return (axis, -1), (before, wanted, after)
    return (-1, axis), (before[:-1], before[-1:], wanted)


def _as_map(b: Builder, x: Value, at: tuple[int, int]) -> tuple[Axis, Axis, Axis]:
    """The layout of a map with these two axes of a value as its height and width."""
    others = tuple(a for i, axis in enumerate(x.axes) if i not in at for a in axis if a is not b.batch)
    return others, x.axes[at[0]], x.axes[at[1]]


def _filled(b: Builder, x: Value, pads: Sequence[int], value: float) -> Value:
    """With another number than 0 around."""
    if value in (float("inf"), float("-inf")):
        raise Unsupported(f"a padding by {value}")
    for i, count in enumerate(pads):
        if count:
            axis = len(x.axes) - 1 - i // 2
            new: Axis = (Atom(count),) if count > 1 else ()
            axes = (*x.axes[:axis], new, *x.axes[axis + 1 :])
            base = plain(axes, b.batch)
            one = Value(Constant(torch.full(sizes(base), value), computed="a number"), base, axes)
            x = cat(b, [one, x] if i % 2 == 0 else [x, one], axis)
    return x


def _mirrored(b: Builder, x: Value, pads: Sequence[int], mode: str) -> Value:
    """With positions of its own around."""
    for i in range(0, len(pads), 2):
        axis = len(x.axes) - 1 - i // 2
        before, after, size = pads[i], pads[i + 1], x.shape[axis]
        if (
            max(before, after) > MOST_PARTS
            or min(before, after) < 0
            or mode not in ("reflect", "replicate", "circular")
        ):
            raise Unsupported(f"a padding by `{mode}` of {before} and {after}")
        if mode == "circular":
            parts = [b.sliced(x, axis, size - before, size)] if before else []
            parts = [*parts, x, *([b.sliced(x, axis, 0, after)] if after else [])]
        else:
            turn = mode == "reflect"
            first = [turn * (before - j) for j in range(before)]
            last = [size - 1 - turn * (j + 1) for j in range(after)]
            parts = [b.sliced(x, axis, j, j + 1) for j in first] + [x] + [b.sliced(x, axis, j, j + 1) for j in last]
        x = cat(b, parts, axis) if len(parts) > 1 else x
    return x


@understands("unfold")
def unfold(b: Builder, x: Value, dim: int, size: int, step: int, gap: int = 1) -> Value:
    """Windows of an axis as a last axis."""
    at, rank = dim % len(x.axes), len(x.axes)
    count = (x.shape[at] - gap * (size - 1) - 1) // step + 1
    if step > 1 and gap == 1:
        return movedim(b, _stepped(b, x, at, size, step, count), at + 1, rank)
    if size > MOST_PARTS:
        raise Unsupported(f"windows of {size} positions")
    x = _long(b, x, at, gap * (size - 1) + step * count)
    parts = []
    for i in range(size):
        part = b.sliced(x, at, gap * i, gap * i + step * count)
        if step > 1:
            part = select(b, reshaped(b, part, [*part.shape[:at], count, step, *part.shape[at + 1 :]]), at + 1, 0)
        parts.append(part)
    return stack(b, parts, rank)


def _stepped(b: Builder, x: Value, at: int, size: int, step: int, count: int) -> Value:
    """Windows that are more than a position apart, of steps that follow each other, beside their axis."""
    turns = -(-size // step)
    if turns > MOST_PARTS:
        raise Unsupported(f"windows of {size} positions")
    x = _long(b, x, at, step * (count + turns - 1))
    x = b.sliced(x, at, 0, step * (count + turns - 1))
    steps = reshaped(b, x, [*x.shape[:at], count + turns - 1, step, *x.shape[at + 1 :]])
    if turns > 1:
        steps = cat(b, [b.sliced(steps, at, i, i + count) for i in range(turns)], at + 1)
    return b.sliced(steps, at + 1, 0, size)


def _long(b: Builder, x: Value, at: int, length: int) -> Value:
    """With zeros behind, where an axis is shorter."""
    missing = length - x.shape[at]
    return pad(b, x, [0, 0] * (len(x.axes) - 1 - at) + [0, missing]) if missing > 0 else x


@understands("im2col")
def im2col(
    b: Builder, x: Value, kernel: Sequence[int], gaps: Sequence[int], pads: Sequence[int], steps: Sequence[int]
) -> Value:
    """The windows of a map [B, C, H, W] as columns, [B, C * kernel, windows]."""
    x = pad(b, x, [pads[1], pads[1], pads[0], pads[0]])
    x = unfold(b, unfold(b, x, 2, kernel[0], steps[0], gaps[0]), 3, kernel[1], steps[1], gaps[1])
    batch, channels, height, width = x.shape[:4]
    x = permute(b, x, [0, 1, 4, 5, 2, 3])
    return reshaped(b, x, [batch, channels * kernel[0] * kernel[1], height * width])


@understands("col2im")
def col2im(
    b: Builder, x: Value, size: Sequence[int], kernel: Sequence[int], gaps: Sequence[int], pads: Sequence[int],
    steps: Sequence[int],
) -> Value:  # fmt: skip
    """Columns [B, C * kernel, windows] as a map [B, C, H, W], where windows that overlap are added."""
    if prod(kernel) > MOST_PARTS:
        raise Unsupported(f"windows of {prod(kernel)} positions")
    spans = [gap * (k - 1) + 1 for gap, k in zip(gaps, kernel, strict=True)]
    whole = [length + 2 * zeros for length, zeros in zip(size, pads, strict=True)]
    counts = [(length - span) // step + 1 for length, span, step in zip(whole, spans, steps, strict=True)]
    batch, columns = x.shape[:2]
    channels = columns // prod(kernel)
    x = reshaped(b, x, [batch, columns, *counts])
    x = _apart(b, _apart(b, x, 2, steps[0]), 3, steps[1])
    high, wide = x.shape[2:]
    parts = reshaped(b, x, [batch, channels, *kernel, high, wide])
    total: Value | None = None
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            top, left = gaps[0] * row, gaps[1] * column
            part = select(b, select(b, parts, 2, row), 2, column)
            part = pad(b, part, [left, whole[1] - wide - left, top, whole[0] - high - top])
            total = part if total is None else add(b, total, part)
    assert total is not None
    return pad(b, total, [-pads[1], -pads[1], -pads[0], -pads[0]])


def _apart(b: Builder, x: Value, axis: int, step: int) -> Value:
    """With zeros between the positions of an axis of a map, which are so many steps apart then."""
    if step == 1:
        return x
    batch, channels, high, wide = x.shape
    if axis == 2:
        apart = pad(b, reshaped(b, x, [batch, channels * high, 1, wide]), [0, 0, 0, step - 1])
        return reshaped(b, apart, [batch, channels, high * step, wide])
    apart = pad(b, reshaped(b, x, [batch, channels * high, wide, 1]), [0, step - 1, 0, 0])
    return reshaped(b, apart, [batch, channels, high, wide * step])


def _pads(zeros: Sequence[tuple[int, int]]) -> int | tuple[int, ...]:
    flat = tuple(one for pair in zeros for one in pair)
    return flat[0] if len(set(flat)) == 1 else flat
