"""Attention cores."""

from __future__ import annotations

import numpy as np

from archir.ops import attention as ops
from archir_onnx.builder import Builder
from archir_onnx.rules import lowers


@lowers(ops.Attention)
def attention(g: Builder, op: ops.Attention, query: str, key: str, value: str) -> str:
    """`softmax(q k^T * scale) v`; keys are transposed as they are split into heads, queries are scaled."""
    q_type, k_type, v_type = g.types
    scale = op.scale if op.scale is not None else (q_type.channels // op.heads) ** -0.5
    q, v = g.heads(query, op.heads, q_type), g.heads(value, op.heads, v_type)
    if k_type.rank == 2:
        tokens, features = k_type.shape
        k = g.transpose(g.reshape(key, tokens, op.heads, features // op.heads), 0, 2, 3, 1)
    else:
        channels, height, width = k_type.shape
        k = g.reshape(key, op.heads, channels // op.heads, height * width)
    if scale != 1:
        q = g.node("Mul", q, g.constant(scale, np.float32))
    weights = g.node("Softmax", g.node("MatMul", q, k), axis=-1)
    return g.unheads(g.node("MatMul", weights, v), g.type)


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
    """Windows gathered along rows, then along columns; one matrix product per position and head."""
    heads = op.heads
    channels, height, width = g.types[0].shape
    inner, outer = channels // heads, g.type.channels // heads
    if op.scale != 1:
        query = g.node("Mul", query, g.constant(op.scale, np.float32))
    # [B, heads, H, W, 1, c] x [B, heads, H, W, c, k * k]
    q = g.reshape(query, heads, inner, height, width)
    logits = g.node(
        "MatMul",
        g.node("Unsqueeze", g.transpose(q, 0, 1, 3, 4, 2), g.constant([4])),
        _windows(g, key, op, inner, (0, 1, 3, 5, 2, 4, 6)),
    )
    if rows is not None and columns is not None:
        logits = g.node("Add", logits, _relative(g, op, q, rows, columns))
    weights = g.node("Softmax", logits, axis=-1)
    y = g.node("MatMul", weights, _windows(g, value, op, outer, (0, 1, 3, 5, 4, 6, 2)))
    y = g.transpose(g.reshape(y, heads, height, width, outer), 0, 1, 4, 2, 3)
    return g.reshape(y, *g.type.shape)


def _windows(g: Builder, x: str, op: ops.LocalAttention, channels: int, order: tuple[int, ...]) -> str:
    """The window around each position: [B, heads, c, H, k, W, k] in another order, windows or channels last."""
    _, height, width = g.types[0].shape
    kernel, pad = op.kernel, op.kernel // 2
    padded = g.node("Pad", x, g.constant([0, 0, pad, pad, 0, 0, pad, pad]), g.constant(0, np.float32))
    down = g.node("Gather", padded, g.constant(np.arange(height)[:, None] + np.arange(kernel)), axis=2)
    both = g.node("Gather", down, g.constant(np.arange(width)[:, None] + np.arange(kernel)), axis=4)
    split = g.reshape(both, op.heads, channels, height, kernel, width, kernel)
    area = kernel * kernel
    last = (channels, area) if order[-1] == 6 else (area, channels)
    return g.reshape(g.transpose(split, *order), op.heads, height, width, *last)


def _relative(g: Builder, op: ops.LocalAttention, q: str, rows: str, columns: str) -> str:
    """The queries against row and column offsets: [B, heads, H, W, 1, k * k]. The first half of all channels meets
    the rows, the other half the columns; the two tables become one matrix per head when the model is made."""
    channels, height, width = g.types[0].shape
    by_row, by_column = g.arrays[rows], g.arrays[columns]
    half, kernel = by_row.shape
    table = np.zeros((half + len(by_column), kernel, kernel), by_row.dtype)
    table[:half] = by_row[:, :, None]
    table[half:] = by_column[:, None, :]
    table = np.tile(table, (channels // len(table), 1, 1)).reshape(op.heads, channels // op.heads, kernel * kernel)
    name = g.weight(f"{rows.removesuffix('.rows')}.offsets", table)
    flat = g.reshape(g.transpose(q, 0, 1, 3, 4, 2), op.heads, height * width, channels // op.heads)
    return g.reshape(g.node("MatMul", flat, name), op.heads, height, width, 1, kernel * kernel)


@lowers(ops.AxialAttention)
def axial_attention(
    g: Builder, op: ops.AxialAttention, query: str, key: str, value: str, *, offsets: str | None = None
) -> str:
    """`softmax(q (k + r)^T) v` with one matrix product per line and head; the offsets become a matrix per position."""
    heads, span = op.heads, op.span(g.type)
    _, height, width = g.type.shape
    # [B, heads, c, H, W] as [B, lines, heads, span, c], keys as [B, lines, heads, c, span]
    order = (0, 4, 1, 3, 2) if op.axis == "height" else (0, 3, 1, 4, 2)
    inner = g.types[0].channels // heads
    outer = g.type.channels // heads
    if op.scale != 1:
        query = g.node("Mul", query, g.constant(op.scale, np.float32))
    q = g.transpose(g.reshape(query, heads, inner, height, width), *order)
    k = g.transpose(g.reshape(key, heads, inner, height, width), *order[:3], order[4], order[3])
    v = g.transpose(g.reshape(value, heads, outer, height, width), *order)
    logits = g.node("MatMul", q, k)
    if offsets is not None:
        position = np.arange(span)
        table = g.arrays[offsets][:, position - position[:, None] + span - 1].transpose(1, 0, 2)  # [span, c, span]
        name = g.weight(f"{offsets}.positions", np.ascontiguousarray(table))
        row = g.node("Unsqueeze", q, g.constant([4]))
        logits = g.node("Add", logits, g.node("Squeeze", g.node("MatMul", row, name), g.constant([4])))
    y = g.node("MatMul", g.node("Softmax", logits, axis=-1), v)
    back = (0, 2, 4, 3, 1) if op.axis == "height" else (0, 2, 4, 1, 3)
    return g.reshape(g.transpose(y, *back), *g.type.shape)


@lowers(ops.Rotary)
def rotary(g: Builder, op: ops.Rotary, x: str) -> str:
    """Both halves of every head turned by tables of cosines and sines, which are constants."""
    tokens, features = g.type.shape
    width = features // op.heads
    angles = np.outer(np.arange(tokens), op.base ** (-2 * np.arange(width // 2) / width))[:, None]
    cosines, sines = g.constant(np.cos(angles), np.float32), g.constant(np.sin(angles), np.float32)
    split = g.reshape(x, tokens, op.heads, width)
    first, second = g.nodes_of("Split", split, outputs=2, axis=-1, num_outputs=2)
    turned = (
        g.node("Sub", g.node("Mul", first, cosines), g.node("Mul", second, sines)),
        g.node("Add", g.node("Mul", second, cosines), g.node("Mul", first, sines)),
    )
    return g.reshape(g.node("Concat", *turned, axis=-1), tokens, features)
