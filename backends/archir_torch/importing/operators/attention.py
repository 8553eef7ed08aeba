"""Import of matrix products, einsums, attention and rotary embeddings."""

from __future__ import annotations

from dataclasses import replace
from math import prod, sqrt
from typing import Any

import torch

from archir.ops.activation import Scale, Softmax
from archir.ops.arithmetic import Matmul
from archir.ops.attention import Attention, Rotary
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axes, Axis, Unsupported, Value, new_axes
from archir_torch.importing.operators.elementwise import add, align_axes, apply_unary, as_value, mul, single_sample
from archir_torch.importing.operators.layers import linear
from archir_torch.importing.operators.masks import additive_mask
from archir_torch.importing.operators.movement import cat, permute, reshape_value, transpose
from archir_torch.importing.patterns.attention import MASK_THRESHOLD, MASK_VALUE
from archir_torch.importing.rules import torch_operator


@torch_operator("matmul", "bmm", "mm")
def matmul(b: Builder, x: Value | Constant, y: Value | Constant) -> Value:
    """Import a matrix product, with or without batch axes; if one operand is a constant matrix, as a linear layer."""
    if isinstance(y, Constant) and y.tensor.dim() == 2:
        return linear(b, _require_value(x), y.permuted((1, 0)))
    if isinstance(x, Constant) and x.tensor.dim() == 2:
        return transpose(b, linear(b, transpose(b, _require_value(y), -1, -2), x), -1, -2)
    left, right = as_value(b, x), as_value(b, y)
    if len(left.axes) < 2 or len(right.axes) < 2:
        raise Unsupported("a product with a vector")
    return product(b, left, right)


def _require_value(x: Value | Constant) -> Value:
    """Narrow the type of an operand to Value; the other operand is a constant."""
    assert isinstance(x, Value)
    return x


def product(b: Builder, x: Value, y: Value) -> Value:
    """Return the product of values [..., N, K] and [..., K, M].

    A batch axis that only one operand has becomes rows or columns of a single larger product.
    """
    lhs = replace(x, axes=(*x.axes[:-2], x.axes[-2], (), x.axes[-1]))
    rhs = replace(y, axes=(*y.axes[:-2], (), y.axes[-1], y.axes[-2]))
    lhs, rhs = align_axes(b, lhs, rhs)
    batch = tuple(lhs_axis or rhs_axis for lhs_axis, rhs_axis in zip(lhs.axes[:-3], rhs.axes[:-3], strict=True))
    rows, columns, inner = lhs.axes[-3], rhs.axes[-2], lhs.axes[-1]
    if b.batch in inner or (b.batch in rows and b.batch in columns):
        raise Unsupported("a product of samples with each other")
    row_atoms, column_atoms = (tuple(atom for atom in axis if atom is not b.batch) for axis in (rows, columns))
    batch_atoms: Axis = tuple(atom for axis in batch for atom in axis if atom is not b.batch)
    lhs_atoms, rhs_atoms = set(lhs.atoms), set(rhs.atoms)
    shared = tuple(atom for atom in batch_atoms if atom in lhs_atoms and atom in rhs_atoms)
    lhs_only = tuple(atom for atom in batch_atoms if atom in lhs_atoms and atom not in rhs_atoms) + row_atoms
    rhs_only = tuple(atom for atom in batch_atoms if atom in rhs_atoms and atom not in lhs_atoms)
    transposed = bool(inner) and rhs.base[-1] == inner
    lhs_operand = b.with_base(lhs, _product_base(shared, lhs_only, inner))
    rhs_columns = rhs_only + column_atoms
    rhs_operand = b.with_base(
        rhs, _product_base(shared, rhs_columns, inner) if transposed else _product_base(shared, inner, rhs_columns)
    )
    node = b.add(Matmul(transposed), b.node(lhs_operand), b.node(rhs_operand))
    new_columns: Axis = (Atom(prod(a.size for a in column_atoms)),) if column_atoms else ()
    samples = tuple(atom for atom in columns if atom is b.batch)
    return Value(node, _product_base(shared, lhs_only, rhs_only + new_columns), (*batch, rows, samples + new_columns))


def _product_base(flat: Axis, rows: Axis, columns: Axis) -> Axes:
    """Return the base of a batch of matrices, or of a single matrix if there are no batch axes."""
    return (flat, rows, columns) if flat else (rows, columns)


@torch_operator("baddbmm")
def baddbmm(b: Builder, bias: Any, x: Value, y: Value, beta: float = 1, alpha: float = 1) -> Value:
    """Import beta * bias + alpha * x y, where x y is a batched matrix product."""
    result = matmul(b, x, y)
    if alpha != 1:
        result = apply_unary(b, Scale(float(alpha)), result)
    return result if beta == 0 else add(b, result, bias, beta)


@torch_operator("scaled_dot_product_attention")
def attention(
    b: Builder, query: Value, key: Value, value: Value, mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """Import scaled dot-product attention.

    If the layout allows it, the result is an operation `attention`, otherwise two products and a softmax.
    """
    query, key, value = (as_value(b, x) for x in (query, key, value))
    if isinstance(mask, Value) and mask.dtype == "bool":
        mask = additive_mask(b, mask)
    default_scale = 1 / sqrt(query.shape[-1])
    if scale is not None and abs(scale - default_scale) < 1e-6 * default_scale:
        scale = None
    if len(query.axes) == 3 and query.axes[0][:1] == (b.batch,):  # heads merged with the batch axis, or one head
        query, key, value = (replace(x, axes=((b.batch,), x.axes[0][1:], *x.axes[1:])) for x in (query, key, value))
        if isinstance(mask, Value) and len(mask.axes) == 3:
            mask = replace(mask, axes=((b.batch,), mask.axes[0][1:], *mask.axes[1:]))
        result = attention(b, query, key, value, mask, 0.0, is_causal, scale, enable_gqa)
        return replace(result, axes=(result.axes[0] + result.axes[1], *result.axes[2:]))
    if len(query.axes) > 4 and (mask is None or is_causal):  # all axes between samples and rows become heads
        q, k, v = (replace(x, axes=(x.axes[0], sum(x.axes[1:-2], ()), *x.axes[-2:])) for x in (query, key, value))
        result = attention(b, q, k, v, mask, 0.0, is_causal, scale, enable_gqa)
        return replace(result, axes=(*query.axes[:-2], *result.axes[-2:]))
    if len(query.axes) < 3 or (len(query.axes) == 3 and is_causal):
        raise Unsupported(f"an attention on {list(query.shape)}")
    if len(query.axes) != 4:
        return _attend_by_products(b, query, key, value, mask, is_causal, default_scale if scale is None else scale)
    window_axes = query.axes[0][1:]
    if window_axes and mask is None and query.axes[0][0] is b.batch:  # windows become heads
        tensors = query, key, value
        if all(x.axes[0] == query.axes[0] and {*window_axes} <= {*x.atoms} for x in tensors):
            q, k, v = (replace(x, axes=((b.batch,), window_axes + x.axes[1], *x.axes[2:])) for x in tensors)
            result = attention(b, q, k, v, None, 0.0, is_causal, scale, enable_gqa)
            return replace(result, axes=(query.axes[0], query.axes[1], *result.axes[2:]))
    if (
        window_axes
        and isinstance(mask, Value)
        and all(_has_own_matrices(b, x, query) for x in (query, key, value, mask))
    ):
        q, k, v, m = (
            replace(x, axes=((b.batch,), x.axes[0][1:] + x.axes[1], *x.axes[2:])) for x in (query, key, value, mask)
        )
        result = attention(b, q, k, v, m, 0.0, is_causal, scale, enable_gqa)
        return replace(result, axes=(query.axes[0], query.axes[1], *result.axes[2:]))
    if any(x.axes[0] not in ((b.batch,), ()) for x in (query, key, value)):
        return _attend_by_products(b, query, key, value, mask, is_causal, default_scale if scale is None else scale)
    if isinstance(mask, Constant):
        mask, causal = _interpret_mask(b, mask)
        is_causal = is_causal or causal
    heads, kv_heads = query.shape[1], prod(a.size for a in _head_atoms(key))
    _head_atoms(value)
    operands = [
        b.node(b.with_base(query, (query.axes[2], query.axes[1] + query.axes[3]))),
        *(b.node(b.with_base(x, (x.axes[2], _head_atoms(x) + x.axes[3]))) for x in (key, value)),
    ]
    if mask is not None:
        operands.append(b.node(_mask_value(b, mask)))
    op = Attention(heads, scale, is_causal, None, None if kv_heads == heads else kv_heads)
    node = b.add(op, *operands)
    features: Axis = new_axes((value.shape[-1],))[0]
    axes = (query.axes[0], query.axes[1], query.axes[2], features)
    return Value(node, (axes[2], axes[1] + features), axes)


def _has_own_matrices(b: Builder, x: Value, query: Value) -> bool:
    """Return whether a tensor has a separate matrix for each batch axis and head of the queries, rather than copies."""
    head_axes = x.axes[0][1:] + x.axes[1] if len(x.axes) == 4 else ()
    return x.shape[:2] == query.shape[:2] and x.axes[0][:1] == (b.batch,) and {*head_axes} <= {*x.atoms}


def _head_atoms(x: Value) -> Axis:
    """Return the atoms of the heads of keys or values, without copies for several heads of the queries.

    Raises Unsupported if these copies are not adjacent.
    """
    heads = tuple(atom for atom in x.axes[1] if atom in x.atoms)
    if x.axes[1][: len(heads)] != heads:
        raise Unsupported("heads of keys whose copies are not adjacent")
    return heads


def _interpret_mask(b: Builder, mask: Constant) -> tuple[Constant | None, bool]:
    """For a constant mask, return the mask to add to the logits, and whether the constant mask is causal.

    The mask to add is None if the constant mask hides nothing or is causal.
    """
    mask = single_sample(b, mask)
    tensor = mask.tensor
    if tensor.dtype == torch.bool:
        hidden, is_binary = ~tensor, True
    else:
        hidden = tensor <= MASK_THRESHOLD
        is_binary = not mask.trained and bool(((tensor == 0) | hidden).all())
    if is_binary:
        if not bool(hidden.any()):
            return None, False
        rows, columns = tensor.shape[-2:]
        later = torch.ones(rows, columns, dtype=torch.bool).triu(1)
        if rows == columns and bool((hidden == later).all()):
            return None, True
    if tensor.dtype == torch.bool:
        return Constant(torch.where(tensor, 0.0, MASK_VALUE), computed="a mask"), False
    if tensor.numel() and float(tensor.min()) < MASK_VALUE:
        return Constant(tensor.clamp(min=MASK_VALUE), computed="a mask", trained=mask.trained), False
    return mask, False


def _mask_value(b: Builder, mask: Value | Constant) -> Value:
    """Return a mask as a value with the base [queries, keys] or [heads, queries, keys].

    Raises Unsupported if the mask differs between samples.
    """
    x = as_value(b, mask)
    if len(x.axes) == 4:
        if x.axes[0] not in ((), (b.batch,)):
            raise Unsupported("a mask that differs between samples")
        x = replace(x, axes=x.axes[1:])
    if len(x.axes) == 3 and not x.axes[0]:
        x = replace(x, axes=x.axes[1:])
    base_atoms = set(x.atoms)
    axes = tuple(tuple(a for a in axis if a in base_atoms) for axis in x.axes)
    return b.with_base(replace(x, axes=axes), axes)


@torch_operator("rotated")
def rotated(b: Builder, x: Value, cosines: Any, sines: Any) -> Value:
    """Import a rotary embedding.

    If its angles match token positions, the result is an operation `rotary`, otherwise products and a sum.
    """
    op, position_axis = _match_rotary(x, cosines, sines) if isinstance(x, Value) else (None, 0)
    if op is None:
        half = x.shape[-1] // 2
        first, second = (b.slice_axis(x, len(x.axes) - 1, start, start + half) for start in (0, half))
        if isinstance(cosines, Constant) and cosines.tensor.shape[-1] == half:
            tables = [torch.cat([table.tensor] * 2, -1) for table in (cosines, sines)]
            cosines, sines = (Constant(table, computed="angles") for table in tables)
        rotated_halves = cat(b, [apply_unary(b, Scale(-1.0), second), first], -1)
        return add(b, mul(b, x, cosines), mul(b, rotated_halves, sines))
    head_axis = 3 - position_axis
    x = b.with_base(x, (x.axes[position_axis], x.axes[head_axis] + x.axes[3]))
    return replace(x, node=b.add(op, b.node(x)))


def _match_rotary(x: Value, cosines: Any, sines: Any) -> tuple[Rotary | None, int]:
    """Match tables of cosines and sines to a rotary embedding; return its operation and its axis of positions.

    The axis is 1 or 2; the other one of these is the axis of heads. Returns (None, 0) if the tables are not constant or
    do not match.
    """
    if not (isinstance(cosines, Constant) and isinstance(sines, Constant)) or len(x.axes) != 4:
        return None, 0
    cos, sin = (
        table.tensor.reshape((1,) * (4 - table.tensor.dim()) + table.tensor.shape) for table in (cosines, sines)
    )
    varying_axes = [axis for axis in (1, 2) if cos.shape[axis] > 1]
    width = x.shape[3]
    if len(varying_axes) != 1 or cos.shape != sin.shape or cos.shape[0] != 1 or cos.shape[3] not in (width, width // 2):
        return None, 0
    (position_axis,) = varying_axes
    count, half = cos.shape[position_axis], width // 2
    cos, sin = (table.reshape(count, -1) for table in (cos, sin))
    if count != x.shape[position_axis] or not float(sin[1, 1 % half]) > 0:
        return None, 0
    frequency = float(torch.atan2(sin[1, 1 % half], cos[1, 1 % half]))
    base = float(f"{frequency**-half:.5g}") if half > 1 else 10000.0
    angles = torch.outer(torch.arange(count), base ** (torch.arange(half) / -half))
    angles = torch.cat([angles] * (cos.shape[1] // half), 1)
    is_rotary = torch.allclose(angles.cos(), cos, atol=2e-5) and torch.allclose(angles.sin(), sin, atol=2e-5)
    return (Rotary(x.shape[3 - position_axis], base), position_axis) if is_rotary and base > 0 else (None, 0)


def _attend_by_products(
    b: Builder, query: Value, key: Value, value: Value, mask: Any, causal: bool, scale: float
) -> Value:
    """Import attention with further batch axes, such as windows, as two products and a softmax."""
    if causal:
        raise Unsupported("causal attention in windows")
    if scale != 1:
        query = apply_unary(b, Scale(scale), query)
    logits = product(b, query, transpose(b, key, -1, -2))
    if mask is not None:
        if isinstance(mask, Constant):
            samples = mask.tensor.shape[0] if mask.tensor.dim() == len(logits.axes) else 1
            mask, _ = _interpret_mask(b, mask)
            if mask is not None and samples > mask.tensor.shape[0]:  # it was repeated for each sample
                mask_value = as_value(b, mask)
                mask = replace(mask_value, axes=((b.batch, *mask_value.axes[0]), *mask_value.axes[1:]))
        if mask is not None:
            logits = add(b, logits, mask)
    logits, axis = b.isolate_axis(logits, len(logits.axes) - 1)
    weights = apply_unary(b, Softmax(-1 if axis == len(logits.base) - 1 else axis), logits)
    return product(b, weights, value)


@torch_operator("einsum")
def einsum(b: Builder, equation: str, operands: Any, path: Any = None) -> Value:
    """Import an einsum of two tensors as a matrix product.

    Letters that occur in both operands are batch axes or, if the result lacks them, summed over; the remaining
    letters are rows or columns.
    """
    equation = equation.replace(" ", "")
    if "." in equation or "->" not in equation or len(operands) != 2:
        raise Unsupported(f"an einsum {equation}")
    (left, right), out = equation.split("->")[0].split(","), equation.split("->")[1]
    x, y = (as_value(b, v) for v in operands)
    sizes = dict(zip(left, x.shape, strict=True)) | dict(zip(right, y.shape, strict=True))
    batch_letters = [c for c in out if c in left and c in right]
    summed = [c for c in left if c in right and c not in out]
    rows, columns = [c for c in out if c in left and c not in right], [c for c in out if c in right and c not in left]
    if {*left, *right} - {*out, *summed}:
        raise Unsupported(f"an einsum {equation}")

    def grouped(v: Value, letters: str, *groups: list[str]) -> Value:
        v = permute(b, v, [letters.index(c) for group in (batch_letters, *groups) for c in group])
        return reshape_value(b, v, [*(sizes[c] for c in batch_letters), *(prod(sizes[c] for c in g) for g in groups)])

    is_linear = isinstance(operands[1], Constant) and not batch_letters
    if is_linear:
        weight = operands[1].permuted(tuple(right.index(c) for c in [*columns, *summed]))
        shape = (prod(sizes[c] for c in columns), prod(sizes[c] for c in summed))
        result = linear(b, grouped(x, left, rows, summed), weight.reshaped(shape))
    else:
        result = product(b, grouped(x, left, rows, summed), grouped(y, right, summed, columns))
    result = reshape_value(b, result, [sizes[c] for c in [*batch_letters, *rows, *columns]])
    order = [*batch_letters, *rows, *columns]
    return permute(b, result, [order.index(c) for c in out])
