"""Lowering of attention operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from archir.ir.types import TensorType
from archir.ops import attention as ops
from archir_onnx.lowering.builder import CONTRIB, Builder
from archir_onnx.lowering.export_options import ATTENTION_OPSET
from archir_onnx.lowering.rules import lowers
from archir_onnx.lowering.windows import shift_columns, shift_rows

MAX_DECOMPOSED_HEADS, MAX_STANDARD_POSITIONS = 3, 128
"""Maximum number of heads, and of key positions, by which the option `auto` selects the form of attention.

Attention with at most MAX_DECOMPOSED_HEADS heads and more than MAX_STANDARD_POSITIONS key positions is decomposed;
all other attention uses the standard operator.

The standard operator needs no transposes and takes 0.65 to 0.9 times as long, but it assigns whole heads to threads.
With two threads, it takes 1.1 times as long as decomposed attention for three heads of 197 positions, and 1.8 times
as long for one head of 1,024.
"""


_MASK_VALUE = {"float32": -1.7e38, "bfloat16": -1.7e38, "float16": -3.2e4}
"""Value added to the logits at masked positions, by precision: half the lowest number, so that sums stay finite.

onnxruntime uses the lowest number itself for missing positions, and returns zeros for queries that attend to no key.
"""


@lowers(ops.Attention, since=ATTENTION_OPSET)
def attention(g: Builder, op: ops.Attention, query: str, key: str, value: str, mask: str | None = None) -> str:
    """Lower `softmax(q k^T * scale + bias) v` in the form selected by the export options."""
    scale = op.scale if op.scale is not None else (g.types[0].channels // op.heads) ** -0.5
    if op.along != "all":
        return _axis_attention(g, op, scale, (query, key, value), mask)
    form = g.options.attention
    if form == "auto":
        prefers_standard = (
            op.heads > MAX_DECOMPOSED_HEADS or g.types[1].elements // g.types[1].channels <= MAX_STANDARD_POSITIONS
        )
        form = "standard" if prefers_standard and g.opset >= ATTENTION_OPSET else "decomposed"
    types = g.types[:3]
    if op.groups != op.heads and form != "standard":
        times = op.heads // op.groups
        key, value = (_repeat_heads(g, x, op.groups, times, k) for x, k in ((key, types[1]), (value, types[2])))
        types[1:] = [k.with_spatial(k.channels * times, *k.spatial) for k in types[1:]]
    operator_masks = form == "standard" and mask is None and op.window is None  # the operator masks itself
    bias = None if operator_masks else _bias(g, op, query, mask)
    if form == "decomposed":
        return _decomposed(g, op, types, scale, query, key, value, bias)
    if g.type.rank == 2:
        return _attention_node(g, op, form, scale, query, key, value, bias)
    operand_types = zip((query, key, value), types, strict=True)
    q, k, v = (g.transpose(g.reshape(x, kind.channels, -1), 0, 2, 1) for x, kind in operand_types)
    y = _attention_node(g, op, form, scale, q, k, v, bias)
    return g.reshape(g.transpose(y, 0, 2, 1), *g.type.shape, like=query)


def _axis_attention(g: Builder, op: ops.Attention, scale: float, operands: Sequence[str], mask: str | None) -> str:
    """Lower attention along one axis of a map or volume, with one matrix product per line and head.

    The operands are laid out as [B, other axes, heads, N, c].
    """
    axis, count = op.axis(g.type) + 1, g.type.rank  # axes with the batch, which heads make one more
    others = [item + 1 for item in range(2, count + 1) if item != axis]
    split: list[str] = []
    for name, kind in zip(operands, g.types[:3], strict=True):
        heads = op.heads if not split else op.groups
        item, inner = name, kind.channels // heads
        if split and op.groups != op.heads:
            item, heads = _repeat_heads(g, item, op.groups, op.heads // op.groups, kind), op.heads
        item = g.reshape(item, heads, inner, *kind.spatial, like=name)
        last = (2, axis + 1) if len(split) == 1 else (axis + 1, 2)
        split.append(g.transpose(item, 0, *others, 1, *last))
    q, k, v = split
    logits = g.node("MatMul", q if scale == 1 else g.node("Mul", q, g.number(scale)), k)
    bias = _bias(g, op, operands[0], mask)
    weights = g.node("Softmax", logits if bias is None else g.node("Add", logits, bias), axis=-1)
    order = [0, *others, 1, axis + 1, 2]
    y = g.transpose(g.node("MatMul", weights, v), *[order.index(item) for item in range(count + 2)])
    return g.reshape(y, *g.type.shape, like=operands[0])


def _attention_node(
    g: Builder, op: ops.Attention, form: str, scale: float, query: str, key: str, value: str, bias: str | None
) -> str:
    """Add a single attention node, standard or fused, for queries, keys and values [B, N, D]; return its result."""
    if form == "fused":
        inputs = query, key, value, None, None, bias and _expand_bias(g, bias, query, key)
        return g.node("MultiHeadAttention", *inputs, num_heads=op.heads, scale=scale, domain=CONTRIB)
    causal = {"is_causal": 1} if op.causal and bias is None else {}
    heads = {"q_num_heads": op.heads, "kv_num_heads": op.groups}
    return g.node(
        "Attention", query, key, value, bias and _expand_bias(g, bias, query, key), scale=scale, **heads, **causal
    )


def _decomposed(
    g: Builder,
    op: ops.Attention,
    types: Sequence[TensorType],
    scale: float,
    query: str,
    key: str,
    value: str,
    bias: str | None,
) -> str:
    """Lower attention to matrix products and a softmax.

    Keys are transposed while they are split into heads; queries are multiplied by the scale.
    """
    q_type, k_type, v_type = types
    q, v = g.split_heads(query, op.heads, q_type), g.split_heads(value, op.heads, v_type)
    if k_type.rank == 2:
        k = g.transpose(g.reshape(key, g.tokens(k_type), op.heads, k_type.channels // op.heads), 0, 2, 3, 1)
    else:
        k = g.reshape(key, op.heads, k_type.channels // op.heads, -1)
    if scale != 1:
        q = g.node("Mul", q, g.number(scale))
    logits = g.node("MatMul", q, k)
    weights = g.node("Softmax", logits if bias is None else g.node("Add", logits, bias), axis=-1)
    return g.merge_heads(g.node("MatMul", weights, v), g.type, query)


def _repeat_heads(g: Builder, x: str, heads: int, times: int, kind: TensorType) -> str:
    """Repeat each head of keys or values `times` times, for grouped-query attention."""
    inner = kind.channels // heads
    if kind.rank == 2:
        split = g.node("Expand", g.reshape(x, g.tokens(kind), heads, 1, inner), g.constant([1, 1, 1, times, 1]))
        return g.reshape(split, g.tokens(kind), kind.channels * times)
    split = g.node("Expand", g.reshape(x, heads, 1, inner, -1), g.constant([1, 1, times, 1, 1]))
    return g.reshape(split, kind.channels * times, *kind.spatial, like=x)


def _bias(g: Builder, op: ops.Attention, query: str, mask: str | None) -> str | None:
    """Return the tensor to add to the logits, with a large negative number at masked positions.

    Returns None if nothing is added to the logits.
    """
    lowest = g.number(_MASK_VALUE[g.options.precision])
    bias = mask
    if mask is not None:
        if g.types[3].dtype == "bool":
            bias = g.node("Where", mask, g.number(0), lowest)
        heads = [1] if g.types[3].rank == 2 else []
        line_axes = [] if op.along == "all" else range(1 + len(heads), g.type.rank - 1 + len(heads))
        if heads or line_axes:
            bias = g.node("Unsqueeze", bias, g.constant([*heads, *line_axes]))
    if op.causal or op.window is not None:
        bias = g.node("Where", _hidden_keys(g, op, query), lowest, bias if bias is not None else g.number(0))
    return bias


def _hidden_keys(g: Builder, op: ops.Attention, query: str) -> str:
    """Return a mask [N, N] that is true for keys hidden from a query.

    The mask is a constant unless the model accepts inputs of any size.
    """
    count = op.span(g.type)
    min_distance = 0 if op.causal or op.window is None else 1 - op.window
    if not g.options.has_open_sizes:
        position = np.arange(count)
        table = position[:, None] - position
        return g.constant((table < min_distance) | (table >= (op.window or count)), np.bool_)
    positions = g.node("Range", g.constant(0), _position_count(g, op, query), g.constant(1))
    distances = g.node("Sub", g.node("Unsqueeze", positions, g.constant([1])), positions)
    hidden = g.node("Less", distances, g.constant(min_distance))
    if op.window is None:
        return hidden
    return g.node("Or", hidden, g.node("GreaterOrEqual", distances, g.constant(op.window)))


def _position_count(g: Builder, op: ops.Attention, x: str) -> str:
    """Return the number of positions in tokens or in a map, over which attention runs, as a scalar tensor."""
    if op.along != "all":
        axis = op.axis(g.type) + 1
        return g.node("Squeeze", g.node("Shape", x, start=axis, end=axis + 1))
    if g.type.rank == 2:
        return g.node("Squeeze", g.node("Shape", x, start=1, end=2))
    return g.node("ReduceProd", g.spatial_size(x), keepdims=0)


def _expand_bias(g: Builder, bias: str, query: str, key: str) -> str:
    """Expand a bias [.., N, M] over all queries [B, N, D] and keys [B, M, D], as the attention operators require."""
    sizes = [g.node("Shape", x, start=1, end=2) for x in (query, key)]
    return g.node("Expand", bias, g.node("Concat", g.constant([1, 1]), *sizes, axis=0))


MAX_WINDOW_ELEMENTS = 2**21
"""Maximum number of elements per sample for processing all window rows at once.

Counted are the elements of keys or values, copied for every window position.
"""


@lowers(ops.LocalAttention)
def local_attention(
    g: Builder,
    op: ops.LocalAttention,
    query: str,
    key: str,
    value: str,
    *,
    rows: str | None = None,
    columns: str | None = None,
) -> str:
    """Lower attention to a window around each position, by products and sums of shifted maps.

    All rows of the window are processed at once if the copies are small, otherwise one by one. As heads have few
    channels, computing a matrix product per position would be slower (25 to 130 ms instead of 0.3 to 15 ms).
    """
    heads, kernel = op.heads, op.kernel
    channels, height, width = g.types[0].shape
    inner, outer, area = channels // heads, g.type.channels // heads, height * width
    if op.scale != 1:
        query = g.node("Mul", query, g.number(op.scale))
    fits_at_once = max(channels, g.type.channels) * kernel**2 * area <= MAX_WINDOW_ELEMENTS
    chunks = [range(kernel)] if fits_at_once else [range(row, row + 1) for row in range(kernel)]
    keys, values = shift_columns(g, key, kernel), shift_columns(g, value, kernel)
    q = g.reshape(query, heads, inner, 1, -1)
    parts = []
    for chunk in chunks:
        products = g.node(
            "Mul", q, g.reshape(shift_rows(g, keys, chunk, kernel), heads, inner, kernel * len(chunk), -1)
        )
        parts.append(g.reduce("ReduceSum", products, 2))
    logits = parts[0] if len(parts) == 1 else g.node("Concat", *parts, axis=2)
    if rows is not None and columns is not None:
        offsets = _offsets(g, op, chunks, rows, columns)
        logits = g.node("Add", logits, g.node("MatMul", offsets, g.reshape(query, heads, inner, -1)))
    # a softmax along a middle axis; the division by its sum is postponed to the smaller result
    weights = g.node("Exp", g.node("Sub", logits, g.reduce("ReduceMax", logits, 2, keep=True)))
    total = g.reduce("ReduceSum", weights, 2, keep=True)
    weights = g.node("Unsqueeze", weights, g.constant([2]))
    shares = [weights]
    if len(chunks) > 1:
        shares = g.split(weights, 3, len(chunks), kernel**2)
    sums = []
    for chunk, share in zip(chunks, shares, strict=True):
        window = g.reshape(shift_rows(g, values, chunk, kernel), heads, outer, kernel * len(chunk), -1)
        sums.append(g.reduce("ReduceSum", g.node("Mul", window, share), 3))
    y = sums[0]
    for term in sums[1:]:
        y = g.node("Add", y, term)
    return g.reshape(g.node("Div", y, total), *g.type.shape, like=query)


def _offsets(g: Builder, op: ops.LocalAttention, chunks: list[range], rows: str, columns: str) -> str:
    """Return the trained row and column offsets as one matrix per head, [heads, kernel * kernel, c].

    Window positions are in the order of the chunks. The first half of all channels belongs to the rows, the other half
    to the columns.
    """
    channels = g.types[0].channels
    by_row, by_column = g.arrays[rows], g.arrays[columns]
    half, kernel = by_row.shape
    table = np.zeros((half + len(by_column), kernel, kernel), by_row.dtype)  # [channels, columns, rows]
    table[:half] = by_row[:, None, :]
    table[half:] = by_column[:, :, None]
    ordered = np.concatenate([table[:, :, list(chunk)].reshape(len(table), -1) for chunk in chunks], axis=1)
    ordered = np.tile(ordered, (channels // len(table), 1)).reshape(op.heads, channels // op.heads, kernel * kernel)
    return g.weight(f"{rows.removesuffix('.rows')}.offsets", np.ascontiguousarray(ordered.transpose(0, 2, 1)))


@lowers(ops.AxialAttention)
def axial_attention(
    g: Builder, op: ops.AxialAttention, query: str, key: str, value: str, *, offsets: str | None = None
) -> str:
    """Lower `softmax(q (k + r)^T) v` with one matrix product per line and head.

    The offsets r of relative positions become one matrix per position.
    """
    heads, span = op.heads, op.span(g.type)
    _, height, width = g.type.shape
    # [B, heads, c, H, W] as [B, lines, heads, span, c], keys as [B, lines, heads, c, span]
    order = (0, 4, 1, 3, 2) if op.axis == "height" else (0, 3, 1, 4, 2)
    inner = g.types[0].channels // heads
    outer = g.type.channels // heads
    if op.scale != 1:
        query = g.node("Mul", query, g.number(op.scale))
    q = g.transpose(g.reshape(query, heads, inner, height, width, like=query), *order)
    k = g.transpose(g.reshape(key, heads, inner, height, width, like=query), *order[:3], order[4], order[3])
    v = g.transpose(g.reshape(value, heads, outer, height, width, like=query), *order)
    logits = g.node("MatMul", q, k)
    if offsets is not None:
        position = np.arange(span)
        table = g.arrays[offsets][:, position - position[:, None] + span - 1].transpose(1, 0, 2)  # [span, c, span]
        name = g.weight(f"{offsets}.positions", np.ascontiguousarray(table))
        row = g.node("Unsqueeze", q, g.constant([4]))
        logits = g.node("Add", logits, g.node("Squeeze", g.node("MatMul", row, name), g.constant([4])))
    y = g.node("MatMul", g.node("Softmax", logits, axis=-1), v)
    back = (0, 2, 4, 3, 1) if op.axis == "height" else (0, 2, 4, 1, 3)
    return g.reshape(g.transpose(y, *back), *g.type.shape, like=query)


@lowers(ops.Rotary)
def rotary(g: Builder, op: ops.Rotary, x: str) -> str:
    """Lower rotary position embeddings, which rotate the two halves of every head.

    The rotation uses tables of cosines and sines. The tables are constants unless the number of tokens is dynamic.
    """
    tokens, features = g.type.shape
    width = op.rotated_features(g.type)
    speeds = op.base ** (-2 * np.arange(width // 2) / width)
    if g.options.has_open_sizes:
        cosines, sines = _rotations(g, x, speeds)
    else:
        angles = np.outer(np.arange(tokens), speeds)[:, None]
        cosines, sines = g.number(np.cos(angles)), g.number(np.sin(angles))
    head_width = features // op.heads
    split = g.reshape(x, g.tokens(g.type), op.heads, head_width)
    first, second = g.split(split if width == head_width else g.slice(split, 3, 0, width), -1, 2, width)
    turned = (
        g.node("Sub", g.node("Mul", first, cosines), g.node("Mul", second, sines)),
        g.node("Add", g.node("Mul", second, cosines), g.node("Mul", first, sines)),
    )
    unrotated = () if width == head_width else (g.slice(split, 3, width, head_width),)
    return g.reshape(g.node("Concat", *turned, *unrotated, axis=-1), g.tokens(g.type), features)


def _rotations(g: Builder, x: str, speeds: NDArray[Any]) -> tuple[str, str]:
    """Return cosines and sines for the actual number of tokens, [tokens, 1, speeds], computed in float32."""
    count = g.node("Squeeze", g.node("Shape", x, start=1, end=2))
    positions = g.node("Cast", g.node("Range", g.constant(0), count, g.constant(1)), to=TensorProto.FLOAT)
    column = g.node("Reshape", positions, g.constant([-1, 1, 1]))
    angles = g.node("Mul", column, g.constant(speeds, np.float32))
    cosines, sines = g.node("Cos", angles), g.node("Sin", angles)
    if g.options.precision == "float32":
        return cosines, sines
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(g.options.dtype))
    return g.node("Cast", cosines, to=kind), g.node("Cast", sines, to=kind)
