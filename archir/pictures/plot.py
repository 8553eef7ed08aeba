"""Frame and axes for all plots of numbers, as SVG with a light and a dark colour scheme."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import ceil, floor, log10

_MAX_VALUE = 1e300
"""Maximum absolute value that an axis covers."""
STYLE = (
    "svg{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--rule:#d5dae0;--mark:#0072b2}"
    "@media(prefers-color-scheme:dark){svg{--paper:#0f1216;--ink:#e8ebef;--soft:#a4adb8;--rule:#2b323b;--mark:#56b4e9}}"
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:var(--soft)}"
    ".title{font-size:16px;font-weight:600;fill:var(--ink)}.paper{fill:var(--paper)}"
    ".rule{stroke:var(--rule)}.axis{fill:none;stroke:var(--soft)}"
)
"""CSS style sheet for plots."""


def plot(width: int, height: int, title: str, at: tuple[int, int], style: str, lines: Iterable[str]) -> str:
    """Return an SVG file with the title at position `at`, the SVG elements `lines`, and additional CSS rules
    `style`."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" aria-labelledby="title"><title id="title">{escape(title)}</title>'
            f"<style>{STYLE}{style}</style>",
            f'<rect class="paper" width="{width}" height="{height}"/>',
            f'<text class="title" x="{at[0]}" y="{at[1]}">{escape(title)}</text>',
            *lines,
            "</svg>\n",
        ]
    )


def scale(low: float, high: float) -> tuple[float, float, float]:
    """Return (start, end, tick step) of an axis that covers two values, with rounded ends and about four to eight
    ticks.

    Nearly equal values get a margin around them. Values beyond `_MAX_VALUE` are clipped to it.
    """
    low, high = (min(max(value, -_MAX_VALUE), _MAX_VALUE) for value in (low, high))
    magnitude = max(abs(low), abs(high))
    if high - low <= max(magnitude * 1e-9, 1 / _MAX_VALUE):
        margin = magnitude / 10 if magnitude > 1 / _MAX_VALUE else 0.1
        low, high = low - margin, high + margin
    raw_step = (high - low) / 5
    power = 10.0 ** floor(log10(raw_step))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw_step * 0.999)
    return floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step, step
