"""Line charts over epochs as SVG, with rounded axis ticks, a legend, and tooltips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

from archir.pictures.plot import scale

WIDTH, HEIGHT = 440, 280
"""Width and height of a chart, in pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 14, 40
"""Margins around the plot area, in pixels."""
_MAX_DOTS = 40
"""Up to this number of epochs, a dot is drawn for every value."""

Value = float | None
"""Value in a series: a finite number, or None for a gap."""


@dataclass(frozen=True)
class Chart:
    """Series of values over the same epochs, which count from 1; None values are gaps in the line."""

    title: str
    epochs: Sequence[int]
    series: Mapping[str, Sequence[Value]]
    percent: bool = False
    unit: str = "epoch"


def line_chart(chart: Chart) -> str:
    """Return a chart as an HTML figure with title, legend and SVG."""
    values = [value for series in chart.series.values() for value in series if value is not None]
    low, high, step = scale(min(values), max(values))
    first, last = chart.epochs[0], chart.epochs[-1]
    span = max(1, last - first)

    def x(epoch: float) -> float:
        return _LEFT + (epoch - first) / span * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    lines = []
    for number in range(round((high - low) / step) + 1):
        tick = low + number * step
        lines.append(f'<path class="rule" d="M{_LEFT},{_coordinate(y(tick))}H{WIDTH - _RIGHT}"/>')
        lines.append(f'<text class="tick" x="{_LEFT - 8}" y="{_coordinate(y(tick) + 4)}" text-anchor="end">'
                     f"{tick_label(tick, step, chart.percent)}</text>")  # fmt: skip
    for tick in epoch_ticks(first, last):
        lines.append(
            f'<text class="tick" x="{_coordinate(x(tick))}" y="{HEIGHT - _BOTTOM + 18}" '
            f'text-anchor="middle">{tick}</text>'
        )
    lines.append(f'<path class="axis" d="M{_LEFT},{_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>')
    middle, unit = _coordinate((_LEFT + WIDTH - _RIGHT) / 2), escape(chart.unit)
    lines.append(f'<text class="tick" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{unit}</text>')
    for number, series in enumerate(chart.series.values()):
        points = [
            (x(epoch), None if value is None else y(value)) for epoch, value in zip(chart.epochs, series, strict=True)
        ]
        lines.append(f'<path class="curve c{number % 7}" d="{_path(points)}"/>')
        if len(points) <= _MAX_DOTS:
            lines += [
                f'<circle class="dot c{number % 7}" cx="{_coordinate(a)}" cy="{_coordinate(b)}" r="2.6"/>'
                for a, b in points
                if b is not None
            ]
    lines.append(f'<path class="cross" d="M0,{_TOP}V{HEIGHT - _BOTTOM}" visibility="hidden"/>')
    legend = list(chart.series) if list(chart.series) != [chart.title] else []
    keys = "".join(f'<li class="c{number % 7}">{escape(name)}</li>' for number, name in enumerate(legend))
    data = {
        "epochs": list(chart.epochs), "x": [round(x(epoch), 1) for epoch in chart.epochs], "percent": chart.percent,
        "unit": chart.unit,
        "series": {name: list(series) for name, series in chart.series.items()},
    }  # fmt: skip
    return (
        f'<figure class="chart" data-chart="{escape(json.dumps(data, separators=(",", ":")))}">'
        f'<figcaption>{escape(chart.title)}</figcaption><ul class="keys">{keys}</ul>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)} by {unit}">'
        f"{''.join(lines)}</svg>"
        "</figure>"
    )


def epoch_ticks(first: int, last: int) -> list[int]:
    """Return at most eight epochs, including the first, as ticks of the horizontal axis."""
    step = next(
        step for power in range(12) for step in (10**power, 2 * 10**power, 5 * 10**power) if (last - first) / step <= 7
    )
    return [first, *(tick for tick in range(step, last + 1, step) if tick - first >= step * 0.6)]


def tick_label(value: float, step: float, percent: bool = False) -> str:
    """Format the label of a tick, with as many digits as the tick distance `step` requires."""
    unit, word = (0.01, "%") if percent else _unit(abs(value) + step)
    value, step = value / unit, step / unit
    digits = max(0, -floor(log10(step) + 1e-9)) + f"{step:e}".startswith("2.5")
    text = f"{value:.{min(digits, 15)}f}"
    return (text + word) if float(text) else "0" + "%" * percent


def _unit(size: float) -> tuple[float, str]:
    """Return the unit prefix that suits a number, as (factor, letter); (1.0, "") if it needs none."""
    return next(((unit, word) for unit, word in [(1e9, "G"), (1e6, "M"), (1e3, "K")] if size >= 10 * unit), (1.0, ""))


def _path(points: Sequence[tuple[float, float | None]]) -> str:
    """Return the SVG path data of a line, with gaps at None values."""

    def parts() -> Iterator[str]:
        drawing = False
        for x, y in points:
            if y is not None:
                yield f"{'L' if drawing else 'M'}{_coordinate(x)},{_coordinate(y)}"
            drawing = y is not None

    return "".join(parts())


def _coordinate(value: float) -> str:
    """Format a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
