"""Windows as operators take them; and the one around each position of a map, from shifted copies of it: whole lines are
copied, not single numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from archir.ops.windows import Windows
from archir_onnx.lowering.builder import END, Builder


def slides(windows: Windows) -> dict[str, Any]:
    """The attributes of an operator whose windows slide like these."""
    return {
        "kernel_shape": [window.kernel for window in windows],
        "strides": [window.stride for window in windows],
        "pads": [*(window.before for window in windows), *(window.after for window in windows)],
    }


def columns_of(g: Builder, x: str, kernel: int) -> str:
    """A map [B, C, H, W] with zeros around it, shifted along its rows: [B, C, kernel, H + kernel - 1, W]."""
    pad = kernel // 2
    padded = g.node("Pad", x, g.constant([0, 0, pad, pad, 0, 0, pad, pad]), g.number(0))
    apart = g.node("Unsqueeze", padded, g.constant([2]))
    return g.node("Concat", *(g.slice(apart, 4, start, _end(start, kernel)) for start in range(kernel)), axis=2)


def rows_of(g: Builder, columns: str, rows: range, kernel: int) -> str:
    """What `columns_of` gave, shifted along its columns to some rows of windows: [B, C, kernel, rows, H, W]."""
    if not g.form.resizable:
        return g.node("Gather", columns, g.constant(np.asarray(rows)[:, None] + np.arange(g.type.shape[1])), axis=3)
    apart = g.node("Unsqueeze", columns, g.constant([3]))
    return g.node("Concat", *(g.slice(apart, 4, row, _end(row, kernel)) for row in rows), axis=3)


def _end(start: int, kernel: int) -> int:
    """Where what begins at `start` of a line ends, of as many positions as there are windows."""
    return start - kernel + 1 or END
