"""Window attributes of operators, and sliding windows built from shifted copies of maps.

Shifted copies are fast, because whole rows are copied instead of single values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archir.ops.windows import Windows
from archir_onnx.lowering.builder import END, Builder


def window_attributes(windows: Windows) -> dict[str, Any]:
    """Return the ONNX attributes of a convolution or pool with these sliding windows."""
    return {
        "kernel_shape": [window.kernel for window in windows],
        "strides": [window.stride for window in windows],
        "pads": [*(window.before for window in windows), *(window.after for window in windows)],
    }


def shift_columns(g: Builder, x: str, kernel: int) -> str:
    """Return copies of a zero-padded map [B, C, H, W], one for each column of the window.

    The result is [B, C, kernel, H + kernel - 1, W].
    """
    pad = kernel // 2
    padded = g.node("Pad", x, g.constant([0, 0, pad, pad, 0, 0, pad, pad]), g.number(0))
    expanded = g.node("Unsqueeze", padded, g.constant([2]))
    return g.node(
        "Concat", *(g.slice(expanded, 4, start, _slice_end(start, kernel)) for start in range(kernel)), axis=2
    )


def shift_rows(g: Builder, columns: str, rows: range, kernel: int) -> str:
    """Shift the result of `shift_columns` by the given rows of the window: [B, C, kernel, rows, H, W]."""
    if not g.options.has_open_sizes:
        return g.node("Gather", columns, g.constant(np.asarray(rows)[:, None] + np.arange(g.type.shape[1])), axis=3)
    expanded = g.node("Unsqueeze", columns, g.constant([3]))
    return g.node("Concat", *(g.slice(expanded, 4, row, _slice_end(row, kernel)) for row in rows), axis=3)


def _slice_end(start: int, kernel: int) -> int:
    """Return the end of the slice that starts at `start` and has one position for each window."""
    return start - kernel + 1 or END
