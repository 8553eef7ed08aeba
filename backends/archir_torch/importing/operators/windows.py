"""Import of padding, and of sliding windows as axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch

from archir.ops import shape
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axis, Unsupported, Value, base_without_batch, sizes
from archir_torch.importing.operators.elementwise import add
from archir_torch.importing.operators.movement import (
    MAX_PARTS,
    cat,
    movedim,
    permute,
    reshape_value,
    select,
    squeeze,
    stack,
    unsqueeze,
)
from archir_torch.importing.rules import torch_operator


@torch_operator("constant_pad_nd", "pad")
def pad(b: Builder, x: Value, pads: Sequence[int], mode: Any = "constant", value: Any = None) -> Value:
    """Import padding with a number, or with reflected, repeated or wrapped elements; negative amounts crop."""
    value = value if isinstance(mode, str) else mode
    if isinstance(mode, str) and mode != "constant":
        return _pad_by_own(b, x, pads, mode)
    rank = len(x.axes)
    for i in range(0, len(pads), 2):  # negative padding crops
        axis = rank - 1 - i // 2
        before, after = pads[i], pads[i + 1]
        x = b.slice_axis(x, axis, max(0, -before), x.shape[axis] - max(0, -after))
    pads = [max(0, layout) for layout in pads]
    if not any(pads):
        return x
    if value not in (None, 0, 0.0):
        return _pad_by_concat(b, x, pads, float(value))
    amounts = {rank - 1 - i // 2: (pads[i], pads[i + 1]) for i in range(0, len(pads), 2) if pads[i] or pads[i + 1]}
    if any(b.batch in x.axes[axis] for axis in amounts):
        raise Unsupported("a padding along the batch")
    if rank == 2 and set(x.axes[0]) - {b.batch}:  # rows folded into the batch axis: a map of one row each
        return squeeze(b, pad(b, unsqueeze(b, x, 1), pads), 1)
    axis_pairs = [(1, 2), (2, 3)] if rank == 4 else [(rank - 2, rank - 1)]  # channels may be last
    layouts = (
        [(at, base) for at in axis_pairs if set(amounts) <= {*at} and (base := _map_base(b, x, at))] if rank > 2 else []
    )
    chosen = (
        next((layout for layout in layouts if layout[1] == x.base), None)
        or _layout_in_order(x, amounts)
        or next(iter(layouts), None)
    )
    if chosen is None:
        return _pad_by_concat(b, x, pads, 0.0)
    (rows, columns), base = chosen
    x = b.with_base(x, base)
    sides_by_axis = [amounts.get(columns, (0, 0)), amounts.get(rows, (0, 0))]
    node = b.add(shape.Pad(_collapse_pads(sides_by_axis)), b.node(x))
    new = {axis: (Atom(x.shape[axis] + sum(sides)),) for axis, sides in amounts.items()}
    axes = tuple(new.get(i, axis) for i, axis in enumerate(x.axes))
    return replace(x, node=node, base=(base[0], new.get(rows, base[1]), new.get(columns, base[2])), axes=axes)


MapLayout = tuple[tuple[int, int], tuple[Axis, Axis, Axis]]
"""Positions of a value's height and width axes (-1 if absent), and the map's base [channels, height, width]."""


def _layout_in_order(x: Value, amounts: Mapping[int, tuple[int, int]]) -> MapLayout | None:
    """Return a map layout that keeps the order of atoms, for padding a single axis; None if there is none."""
    (axis, *others) = amounts
    atoms, axis_atoms = tuple(x.atoms), x.axes[axis]
    starts = [i for i in range(len(atoms) - len(axis_atoms) + 1) if atoms[i : i + len(axis_atoms)] == axis_atoms]
    if others or not axis_atoms or len(starts) != 1:
        return None
    before, after = atoms[: starts[0]], atoms[starts[0] + len(axis_atoms) :]
    if after:
        return (axis, -1), (before, axis_atoms, after)
    return (-1, axis), (before[:-1], before[-1:], axis_atoms)


def _map_base(b: Builder, x: Value, at: tuple[int, int]) -> tuple[Axis, Axis, Axis]:
    """Return the base of a map whose height and width are the two given axes, with all other atoms as channels."""
    others = tuple(a for i, axis in enumerate(x.axes) if i not in at for a in axis if a is not b.batch)
    return others, x.axes[at[0]], x.axes[at[1]]


def _pad_by_concat(b: Builder, x: Value, pads: Sequence[int], value: float) -> Value:
    """Pad with any finite number, by concatenating constants."""
    if value in (float("inf"), float("-inf")):
        raise Unsupported(f"a padding by {value}")
    for i, count in enumerate(pads):
        if count:
            axis = len(x.axes) - 1 - i // 2
            new: Axis = (Atom(count),) if count > 1 else ()
            axes = (*x.axes[:axis], new, *x.axes[axis + 1 :])
            base = base_without_batch(axes, b.batch)
            border = Value(Constant(torch.full(sizes(base), value), computed="a number"), base, axes)
            x = cat(b, [border, x] if i % 2 == 0 else [x, border], axis)
    return x


def _pad_by_own(b: Builder, x: Value, pads: Sequence[int], mode: str) -> Value:
    """Pad with elements of the tensor: reflected, replicated or circular."""
    for i in range(0, len(pads), 2):
        axis = len(x.axes) - 1 - i // 2
        before, after, size = pads[i], pads[i + 1], x.shape[axis]
        if max(before, after) > MAX_PARTS or min(before, after) < 0 or mode not in ("reflect", "replicate", "circular"):
            raise Unsupported(f"padding of mode `{mode}` by {before} and {after}")
        if mode == "circular":
            parts = [b.slice_axis(x, axis, size - before, size)] if before else []
            parts = [*parts, x, *([b.slice_axis(x, axis, 0, after)] if after else [])]
        else:
            is_reflected = mode == "reflect"
            first = [is_reflected * (before - j) for j in range(before)]
            last = [size - 1 - is_reflected * (j + 1) for j in range(after)]
            parts = (
                [b.slice_axis(x, axis, j, j + 1) for j in first] + [x] + [b.slice_axis(x, axis, j, j + 1) for j in last]
            )
        x = cat(b, parts, axis) if len(parts) > 1 else x
    return x


@torch_operator("unfold")
def unfold(b: Builder, x: Value, dim: int, size: int, step: int, gap: int = 1) -> Value:
    """Import sliding windows of an axis as a new last axis; `gap` is the dilation."""
    at, rank = dim % len(x.axes), len(x.axes)
    count = (x.shape[at] - gap * (size - 1) - 1) // step + 1
    if step > 1 and gap == 1:
        return movedim(b, _strided_windows(b, x, at, size, step, count), at + 1, rank)
    if size > MAX_PARTS:
        raise Unsupported(f"windows of {size} positions")
    x = _pad_to_length(b, x, at, gap * (size - 1) + step * count)
    parts = []
    for i in range(size):
        part = b.slice_axis(x, at, gap * i, gap * i + step * count)
        if step > 1:
            part = select(b, reshape_value(b, part, [*part.shape[:at], count, step, *part.shape[at + 1 :]]), at + 1, 0)
        parts.append(part)
    return stack(b, parts, rank)


def _strided_windows(b: Builder, x: Value, at: int, size: int, step: int, count: int) -> Value:
    """Return windows with a stride greater than 1 on a new axis directly after the windowed axis.

    Each window is composed of consecutive blocks of `step` positions.
    """
    steps_per_window = -(-size // step)
    if steps_per_window > MAX_PARTS:
        raise Unsupported(f"windows of {size} positions")
    x = _pad_to_length(b, x, at, step * (count + steps_per_window - 1))
    x = b.slice_axis(x, at, 0, step * (count + steps_per_window - 1))
    steps = reshape_value(b, x, [*x.shape[:at], count + steps_per_window - 1, step, *x.shape[at + 1 :]])
    if steps_per_window > 1:
        steps = cat(b, [b.slice_axis(steps, at, i, i + count) for i in range(steps_per_window)], at + 1)
    return b.slice_axis(steps, at + 1, 0, size)


def _pad_to_length(b: Builder, x: Value, at: int, length: int) -> Value:
    """Pad an axis with zeros at its end to at least the given length."""
    missing = length - x.shape[at]
    return pad(b, x, [0, 0] * (len(x.axes) - 1 - at) + [0, missing]) if missing > 0 else x


@torch_operator("im2col")
def im2col(
    b: Builder, x: Value, kernel: Sequence[int], gaps: Sequence[int], pads: Sequence[int], steps: Sequence[int]
) -> Value:
    """Import the conversion of the windows of a map [B, C, H, W] to columns [B, C * kernel, windows]."""
    x = pad(b, x, [pads[1], pads[1], pads[0], pads[0]])
    x = unfold(b, unfold(b, x, 2, kernel[0], steps[0], gaps[0]), 3, kernel[1], steps[1], gaps[1])
    batch, channels, height, width = x.shape[:4]
    x = permute(b, x, [0, 1, 4, 5, 2, 3])
    return reshape_value(b, x, [batch, channels * kernel[0] * kernel[1], height * width])


@torch_operator("col2im")
def col2im(
    b: Builder, x: Value, size: Sequence[int], kernel: Sequence[int], gaps: Sequence[int], pads: Sequence[int],
    steps: Sequence[int],
) -> Value:  # fmt: skip
    """Import the conversion of columns [B, C * kernel, windows] to a map [B, C, H, W].

    Overlapping windows are summed.
    """
    if prod(kernel) > MAX_PARTS:
        raise Unsupported(f"windows of {prod(kernel)} positions")
    spans = [gap * (k - 1) + 1 for gap, k in zip(gaps, kernel, strict=True)]
    padded_size = [length + 2 * zeros for length, zeros in zip(size, pads, strict=True)]
    counts = [(length - span) // step + 1 for length, span, step in zip(padded_size, spans, steps, strict=True)]
    batch, columns = x.shape[:2]
    channels = columns // prod(kernel)
    x = reshape_value(b, x, [batch, columns, *counts])
    x = _insert_zeros(b, _insert_zeros(b, x, 2, steps[0]), 3, steps[1])
    high, wide = x.shape[2:]
    parts = reshape_value(b, x, [batch, channels, *kernel, high, wide])
    total: Value | None = None
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            top, left = gaps[0] * row, gaps[1] * column
            part = select(b, select(b, parts, 2, row), 2, column)
            part = pad(b, part, [left, padded_size[1] - wide - left, top, padded_size[0] - high - top])
            total = part if total is None else add(b, total, part)
    assert total is not None
    return pad(b, total, [-pads[1], -pads[1], -pads[0], -pads[0]])


def _insert_zeros(b: Builder, x: Value, axis: int, step: int) -> Value:
    """Insert step - 1 zeros after each position of an axis of a map."""
    if step == 1:
        return x
    batch, channels, high, wide = x.shape
    if axis == 2:
        spaced = pad(b, reshape_value(b, x, [batch, channels * high, 1, wide]), [0, 0, 0, step - 1])
        return reshape_value(b, spaced, [batch, channels, high * step, wide])
    spaced = pad(b, reshape_value(b, x, [batch, channels * high, wide, 1]), [0, step - 1, 0, 0])
    return reshape_value(b, spaced, [batch, channels, high, wide * step])


def _collapse_pads(zeros: Sequence[tuple[int, int]]) -> int | tuple[int, ...]:
    """Return padding as a single number if it is the same on all sides."""
    flat = tuple(side for pair in zeros for side in pair)
    return flat[0] if len(set(flat)) == 1 else flat
