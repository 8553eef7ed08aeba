"""Heat maps of alternative probabilities over epochs: one image per choice, with the probability as opacity."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape

from archir.runs.report.contents import ChoiceProbabilities

_BLUE = b"\x2b\x95\xe3"
"""RGB colour of the pixels."""
_MAX_COLUMNS = 300
"""Maximum number of heat map columns. If there are more epochs, evenly spaced epochs are shown."""


def probability_range(weighings: Sequence[ChoiceProbabilities]) -> tuple[float, float]:
    """Return the minimum and maximum of all probabilities, for the colour scale; (0, 1) if they are equal."""
    values = [float(p) for probabilities in weighings for row in probabilities.probabilities for p in row]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return (low, high) if high > low else (0.0, 1.0)


def heat_map(weighing: ChoiceProbabilities, low: float = 0.0, high: float = 1.0) -> str:
    """Return the HTML figure for a choice: alternatives, heat map with the colour scale `low` to `high`, and final
    probabilities."""
    epochs = shown_epochs(len(weighing.probabilities))
    columns = [[min(1.0, max(0.0, float(p))) for p in weighing.probabilities[epoch]] for epoch in epochs]
    last = columns[-1] if columns else [0.0] * len(weighing.alternatives)
    rows = list(zip(weighing.alternatives, last, strict=True))
    chosen = set(weighing.chosen)
    names = "".join(
        f"<li{' class=chosen' if position in chosen else ''}>{escape(name)}</li>"
        for position, (name, _) in enumerate(rows)
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


def shown_epochs(count: int) -> list[int]:
    """Return the indices of the epochs to show: all, or evenly spaced ones that include the first and the last."""
    if count <= _MAX_COLUMNS:
        return list(range(count))
    return [round(index * (count - 1) / (_MAX_COLUMNS - 1)) for index in range(_MAX_COLUMNS)]


def png(columns: Sequence[Sequence[float]]) -> bytes:
    """Return a PNG image (RFC 2083) with one pixel per value in [0, 1]: blue, with the value as opacity."""
    width, height = len(columns), len(columns[0])
    rows = (b"\0" + b"".join(_BLUE + bytes([round(255 * column[row])]) for column in columns) for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
