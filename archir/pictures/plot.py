"""Plots of numbers as SVG files: what they have in common, in light and dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import ceil, floor, log10

_LARGEST = 1e300
STYLE = (
    "svg{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--rule:#d5dae0;--mark:#0072b2}"
    "@media(prefers-color-scheme:dark){svg{--paper:#0f1216;--ink:#e8ebef;--soft:#a4adb8;--rule:#2b323b;--mark:#56b4e9}}"
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:var(--soft)}"
    ".title{font-size:16px;font-weight:600;fill:var(--ink)}.paper{fill:var(--paper)}"
    ".rule{stroke:var(--rule)}.axis{fill:none;stroke:var(--soft)}"
)


def plot(wide: int, high: int, title: str, at: tuple[int, int], style: str, lines: Iterable[str]) -> str:
    """A file of lines of SVG under a title, which stands `at` a place, with further rules of style."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
            f'role="img" aria-labelledby="title"><title id="title">{escape(title)}</title>'
            f"<style>{STYLE}{style}</style>",
            f'<rect class="paper" width="{wide}" height="{high}"/>',
            f'<text class="title" x="{at[0]}" y="{at[1]}">{escape(title)}</text>',
            *lines,
            "</svg>\n",
        ]
    )


def scale(low: float, high: float) -> tuple[float, float, float]:
    """Round ends of an axis that holds two values, and the step between its four to eight marks. Values that cannot be
    told apart get room around them; those beyond `_LARGEST` lie outside."""
    low, high = (min(max(value, -_LARGEST), _LARGEST) for value in (low, high))
    size = max(abs(low), abs(high))
    if high - low <= max(size * 1e-9, 1 / _LARGEST):
        room = size / 10 if size > 1 / _LARGEST else 0.1
        low, high = low - room, high + room
    rough = (high - low) / 5
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    return floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step, step
