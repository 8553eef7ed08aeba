"""Curves over epochs, as SVG: axes with round numbers, a legend, and the values for whoever points at them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10

from archir.pictures.plot import scale

WIDE, HIGH = 440, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 14, 40
_MARKED = 40
"""Up to so many epochs, every value has a dot."""

Value = float | None


@dataclass(frozen=True)
class Chart:
    """Series over the same epochs (counted from 1); values that are no numbers are gaps."""

    title: str
    epochs: Sequence[int]
    series: Mapping[str, Sequence[Value]]
    percent: bool = False
    unit: str = "epoch"


def curves(chart: Chart) -> str:
    """A figure with the chart's title, legend and SVG."""
    values = [value for one in chart.series.values() for value in one if value is not None]
    low, high, step = scale(min(values), max(values))
    first, last = chart.epochs[0], chart.epochs[-1]
    span = max(1, last - first)

    def x(epoch: float) -> float:
        return _LEFT + (epoch - first) / span * (WIDE - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return HIGH - _BOTTOM - (value - low) / (high - low) * (HIGH - _TOP - _BOTTOM)

    lines = []
    for number in range(round((high - low) / step) + 1):
        tick = low + number * step
        lines.append(f'<path class="rule" d="M{_LEFT},{_n(y(tick))}H{WIDE - _RIGHT}"/>')
        lines.append(f'<text class="tick" x="{_LEFT - 8}" y="{_n(y(tick) + 4)}" text-anchor="end">'
                     f"{label(tick, step, chart.percent)}</text>")  # fmt: skip
    for tick in epoch_ticks(first, last):
        lines.append(
            f'<text class="tick" x="{_n(x(tick))}" y="{HIGH - _BOTTOM + 18}" text-anchor="middle">{tick}</text>'
        )
    lines.append(f'<path class="axis" d="M{_LEFT},{_TOP}V{HIGH - _BOTTOM}H{WIDE - _RIGHT}"/>')
    middle, unit = _n((_LEFT + WIDE - _RIGHT) / 2), escape(chart.unit)
    lines.append(f'<text class="tick" x="{middle}" y="{HIGH - 6}" text-anchor="middle">{unit}</text>')
    for number, one in enumerate(chart.series.values()):
        points = [
            (x(epoch), None if value is None else y(value)) for epoch, value in zip(chart.epochs, one, strict=True)
        ]
        lines.append(f'<path class="curve c{number % 7}" d="{_path(points)}"/>')
        if len(points) <= _MARKED:
            lines += [
                f'<circle class="dot c{number % 7}" cx="{_n(a)}" cy="{_n(b)}" r="2.6"/>'
                for a, b in points
                if b is not None
            ]
    lines.append(f'<path class="cross" d="M0,{_TOP}V{HIGH - _BOTTOM}" visibility="hidden"/>')
    shown = list(chart.series) if list(chart.series) != [chart.title] else []
    keys = "".join(f'<li class="c{number % 7}">{escape(name)}</li>' for number, name in enumerate(shown))
    data = {
        "epochs": list(chart.epochs), "x": [round(x(epoch), 1) for epoch in chart.epochs], "percent": chart.percent,
        "unit": chart.unit,
        "series": {name: list(one) for name, one in chart.series.items()},
    }  # fmt: skip
    return (
        f'<figure class="chart" data-chart="{escape(json.dumps(data, separators=(",", ":")))}">'
        f'<figcaption>{escape(chart.title)}</figcaption><ul class="keys">{keys}</ul>'
        f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{escape(chart.title)} by {unit}">'
        f"{''.join(lines)}</svg>"
        "</figure>"
    )


def epoch_ticks(first: int, last: int) -> list[int]:
    """At most eight epochs to mark, the first of them."""
    step = next(
        step for power in range(12) for step in (10**power, 2 * 10**power, 5 * 10**power) if (last - first) / step <= 7
    )
    return [first, *(tick for tick in range(step, last + 1, step) if tick - first >= step * 0.6)]


def label(value: float, step: float, percent: bool = False) -> str:
    """A mark's text, with as many digits as marks that are a step apart need."""
    unit, word = (0.01, "%") if percent else _unit(abs(value) + step)
    value, step = value / unit, step / unit
    digits = max(0, -floor(log10(step) + 1e-9)) + f"{step:e}".startswith("2.5")
    text = f"{value:.{min(digits, 15)}f}"
    return (text + word) if float(text) else "0" + "%" * percent


def _unit(size: float) -> tuple[float, str]:
    return next(((unit, word) for unit, word in [(1e9, "G"), (1e6, "M"), (1e3, "K")] if size >= 10 * unit), (1.0, ""))


def _path(points: Sequence[tuple[float, float | None]]) -> str:
    def parts() -> Iterator[str]:
        drawing = False
        for x, y in points:
            if y is not None and isfinite(y):
                yield f"{'L' if drawing else 'M'}{_n(x)},{_n(y)}"
            drawing = y is not None

    return "".join(parts())


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
