"""How choices were weighed over time: a heat map each, a small image whose opacity is the probability."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape

from archir.runs.report.contents import Weighing

_BLUE = b"\x2b\x95\xe3"
_MOST = 300
"""Columns of a heat map; of more epochs, some are left out."""


def extent(weighings: Sequence[Weighing]) -> tuple[float, float]:
    """The least and the greatest of all probabilities: what colours go from and to, so that little is seen, too."""
    values = [float(p) for one in weighings for row in one.probabilities for p in row]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low, high) if high > low else (0.0, 1.0)


def heat(weighing: Weighing, low: float = 0.0, high: float = 1.0) -> str:
    """A choice's figure: alternatives, probabilities by epoch from `low` to `high`, and the last ones in numbers."""
    epochs = sampled(len(weighing.probabilities))
    columns = [[min(1.0, max(0.0, float(p))) for p in weighing.probabilities[epoch]] for epoch in epochs]
    last = columns[-1] if columns else [0.0] * len(weighing.alternatives)
    rows = list(zip(weighing.alternatives, last, strict=True))
    chosen = set(weighing.chosen)
    names = "".join(
        f"<li{' class=chosen' if place in chosen else ''}>{escape(name)}</li>" for place, (name, _) in enumerate(rows)
    )
    shares = "".join(f"<li>{100 * share:.1f}%</li>" for _, share in rows)
    data = {
        "epochs": [epoch + 1 for epoch in epochs],
        "names": list(weighing.alternatives),
        "permille": [[round(1000 * p) for p in column] for column in columns],
    }
    shades = [[min(1.0, max(0.0, (p - low) / (high - low))) for p in column] for column in columns]
    image = b64encode(png(shades)).decode() if columns else ""
    return (
        f'<figure class="heat" data-heat="{escape(json.dumps(data, separators=(",", ":")))}">'
        f"<figcaption>{escape(weighing.choice)}</figcaption><ol>{names}</ol>"
        f'<img alt="probabilities by epoch" height="{20 * len(rows)}" src="data:image/png;base64,{image}">'
        f'<ol class="shares">{shares}</ol></figure>'
    )


def sampled(count: int) -> list[int]:
    """Epochs to show, first and last among them."""
    if count <= _MOST:
        return list(range(count))
    return [round(place * (count - 1) / (_MOST - 1)) for place in range(_MOST)]


def png(columns: Sequence[Sequence[float]]) -> bytes:
    """An image with a pixel for each value between 0 and 1: blue, as opaque as the value is large (RFC 2083)."""
    wide, high = len(columns), len(columns[0])
    rows = (b"\0" + b"".join(_BLUE + bytes([round(255 * column[row])]) for column in columns) for row in range(high))
    header = struct.pack(">IIBBBBB", wide, high, 8, 6, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
