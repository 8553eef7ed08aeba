"""The window around each position of a map, from shifted copies of it: whole lines are copied, not single numbers."""

from __future__ import annotations

import numpy as np

from archir_onnx.builder import Builder


def columns_of(g: Builder, x: str, kernel: int) -> str:
    """A map [B, C, H, W] with zeros around it, shifted along its rows: [B, C, kernel, H + kernel - 1, W]."""
    pad, width = kernel // 2, g.type.shape[2]
    padded = g.node("Pad", x, g.constant([0, 0, pad, pad, 0, 0, pad, pad]), g.constant(0, np.float32))
    apart = g.node("Unsqueeze", padded, g.constant([2]))
    return g.node("Concat", *(g.slice(apart, 4, start, start + width) for start in range(kernel)), axis=2)


def rows_of(g: Builder, columns: str, rows: range) -> str:
    """What `columns_of` gave, shifted along its columns to some rows of windows: [B, C, kernel, rows, H, W]."""
    height = g.type.shape[1]
    return g.node("Gather", columns, g.constant(np.asarray(rows)[:, None] + np.arange(height)), axis=3)
