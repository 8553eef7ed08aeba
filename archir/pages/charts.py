"""Charts as SVG, in HTML pages and in files of their own: axes with rounded ticks, lines, legends, and tooltips."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

from archir.pages.page import Html

COLOURS = 7
"""Number of colours of lines and points: the CSS classes c0 to c6."""
WIDTH, HEIGHT = 440, 280
"""Width and height of a chart, in pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 14, 40
"""Margins around the plot area, in pixels."""
_MAX_DOTS = 40
"""Up to this number of epochs, a dot is drawn for every value."""
_MAX_VALUE = 1e300
"""Maximum absolute value that an axis covers."""
STYLE = (
    "svg{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--rule:#d5dae0;--mark:#0072b2}"
    "@media(prefers-color-scheme:dark){svg{--paper:#0f1216;--ink:#e8ebef;--soft:#a4adb8;--rule:#2b323b;--mark:#56b4e9}}"
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:var(--soft)}"
    ".title{font-size:16px;font-weight:600;fill:var(--ink)}.paper{fill:var(--paper)}"
    ".rule{stroke:var(--rule)}.axis{fill:none;stroke:var(--soft)}"
)
"""CSS style sheet for charts in files of their own."""


@dataclass(frozen=True)
class Axis:
    """Axis that maps values from `low` to `high` to pixels from `first` to `last`; `ticks` are values with labels."""

    low: float
    high: float
    first: float
    last: float
    ticks: Sequence[tuple[float, str]] = ()
    logarithmic: bool = False

    @staticmethod
    def linear(values: Iterable[float], first: float, last: float, percent: bool = False) -> Axis:
        """Return an axis that covers all values, with rounded ends and ticks.

        Axes of fractions (`percent`) end at 0% and 100%; ticks of whole numbers are whole numbers.
        """
        values = list(values)
        low, high, step = scale(min(values), max(values))
        if all(value == int(value) for value in values) and step < 1:
            low, high, step = floor(low), ceil(high), 1.0
        if percent and min(values) >= 0 and max(values) <= 1:
            low, high = max(0.0, low), min(1.0, high)
        ticks = [low + number * step for number in range(round((high - low) / step) + 1)]
        return Axis(low, high, first, last, [(tick, tick_label(tick, step, percent)) for tick in ticks])

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        if self.logarithmic:
            fraction = log10(value / self.low) / log10(self.high / self.low)
        else:
            fraction = (value - self.low) / (self.high - self.low)
        return self.first + fraction * (self.last - self.first)


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


def tick_label(value: float, step: float, percent: bool = False) -> str:
    """Format the label of a tick, with as many digits as the tick distance `step` requires."""
    unit, word = (0.01, "%") if percent else (1.0, "")
    if not percent:
        prefixes = [(1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "K")]
        units = ((size, letter) for least, size, letter in prefixes if abs(value) + step >= least)
        unit, word = next(units, (1.0, ""))
    value, step = value / unit, step / unit
    digits = max(0, -floor(log10(step) + 1e-9)) + f"{step:e}".startswith("2.5")
    text = f"{value:.{min(digits, 15)}f}"
    return (text + word) if float(text) else "0" + "%" * percent


def epoch_ticks(first: int, last: int) -> list[int]:
    """Return at most eight epochs, including the first, as ticks of the horizontal axis."""
    step = next(
        step for power in range(12) for step in (10**power, 2 * 10**power, 5 * 10**power) if (last - first) / step <= 7
    )
    return [first, *(tick for tick in range(step, last + 1, step) if tick - first >= step * 0.6)]


def frame(x: Axis, y: Axis, x_caption: str, y_caption: str = "") -> Iterator[str]:
    """Yield the SVG elements of two axes with their labels, grid lines and captions."""
    for value, label in y.ticks:
        yield f'<path class="rule" d="M{pixel(x.first)},{pixel(y.at(value))}H{pixel(x.last)}"/>'
        yield text(x.first - 8, y.at(value) + 4, label, "end")
    for value, label in x.ticks:
        yield text(x.at(value), y.first + 18, label)
    yield f'<path class="axis" d="M{pixel(x.first)},{pixel(y.last)}V{pixel(y.first)}H{pixel(x.last)}"/>'
    yield text((x.first + x.last) / 2, y.first + 34, x_caption)
    if y_caption:
        turned = f'transform="translate(18 {pixel((y.first + y.last) / 2)}) rotate(-90)"'
        yield f'<text class="tick" {turned} text-anchor="middle">{escape(y_caption)}</text>'


def text(x: float, y: float, content: str, anchor: str = "middle", kind: str = "tick") -> str:
    """Return an SVG text."""
    return f'<text class="{kind}" x="{pixel(x)}" y="{pixel(y)}" text-anchor="{anchor}">{escape(content)}</text>'


def pixel(value: float) -> str:
    """Format a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def curve(points: Iterable[tuple[float, float | None]]) -> str:
    """Return the SVG path data of a line, with gaps where y is None."""
    parts, drawing = [], False
    for x, y in points:
        if y is not None:
            parts.append(f"{'L' if drawing else 'M'}{pixel(x)},{pixel(y)}")
        drawing = y is not None
    return "".join(parts)


def figure(
    title: str, elements: Iterable[str], width: float, height: float,
    kind: str = "chart", keys: Iterable[str] = (), label: str = "", data: object = None, role: str = "img",
) -> Html:  # fmt: skip
    """Return a chart as an HTML figure with title, legend entries `keys`, and the `data` that its tooltips show.

    `role` is "group" if elements inside can be selected.
    """
    attribute = "" if data is None else f' data-chart="{escape(json.dumps(data, separators=(",", ":")))}"'
    return Html(
        f'<figure class="{kind}"{attribute}><figcaption>{escape(title)}</figcaption>'
        f'<ul class="keys">{"".join(keys)}</ul>'
        f'<svg viewBox="0 0 {pixel(width)} {pixel(height)}" role="{role}" aria-label="{escape(label or title)}">'
        f"{''.join(elements)}</svg></figure>"
    )


def svg_file(width: int, height: int, title: str, at: tuple[int, int], style: str, elements: Iterable[str]) -> str:
    """Return a chart as an SVG file with the title at position `at`, and additional CSS rules `style`."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" aria-labelledby="title"><title id="title">{escape(title)}</title>'
            f"<style>{STYLE}{style}</style>",
            f'<rect class="paper" width="{width}" height="{height}"/>',
            f'<text class="title" x="{at[0]}" y="{at[1]}">{escape(title)}</text>',
            *elements,
            "</svg>\n",
        ]
    )


@dataclass(frozen=True)
class LineChart:
    """Series of values over the same epochs, which count from 1; None values are gaps in the line.

    `margins` are the distances from the lines to the borders of bands around them, such as standard errors.
    """

    title: str
    epochs: Sequence[int]
    series: Mapping[str, Sequence[float | None]]
    percent: bool = False
    unit: str = "epoch"
    margins: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    def figure(self) -> Html:
        """Return the chart as an HTML figure."""
        bands = {name: self._band(name) for name in self.margins}
        values = [value for series in self.series.values() for value in series if value is not None]
        values += [value for band in bands.values() for _, *ends in band for value in ends]
        first, last = self.epochs[0], self.epochs[-1]
        ticks = [(float(tick), str(tick)) for tick in epoch_ticks(first, last)]
        x = Axis(first, max(last, first + 1), _LEFT, WIDTH - _RIGHT, ticks)
        y = Axis.linear(values, HEIGHT - _BOTTOM, _TOP, self.percent)
        elements = [*frame(x, y, self.unit)]
        for number, (name, series) in enumerate(self.series.items()):
            colour = f"c{number % COLOURS}"
            if band := bands.get(name):
                border = [(e, high) for e, _, high in band] + [(e, low) for e, low, _ in reversed(band)]
                outline = curve((x.at(epoch), y.at(value)) for epoch, value in border)
                elements.append(f'<path class="band {colour}" d="{outline}Z"/>')
            points = [
                (x.at(epoch), None if value is None else y.at(value))
                for epoch, value in zip(self.epochs, series, strict=True)
            ]
            elements.append(f'<path class="curve {colour}" d="{curve(points)}"/>')
            if len(points) <= _MAX_DOTS:
                dots = ((pixel(a), pixel(b)) for a, b in points if b is not None)
                elements += [f'<circle class="dot {colour}" cx="{a}" cy="{b}" r="2.6"/>' for a, b in dots]
        elements.append(f'<path class="cross" d="M0,{_TOP}V{HEIGHT - _BOTTOM}" visibility="hidden"/>')
        names = [*self.series] if [*self.series] != [self.title] else []
        keys = (f'<li class="c{number % COLOURS}">{escape(name)}</li>' for number, name in enumerate(names))
        data = {
            "epochs": [*self.epochs], "x": [round(x.at(epoch), 1) for epoch in self.epochs], "percent": self.percent,
            "unit": self.unit, "series": {name: [*series] for name, series in self.series.items()},
        }  # fmt: skip
        return figure(self.title, elements, WIDTH, HEIGHT, "chart", keys, f"{self.title} by {self.unit}", data)

    def _band(self, name: str) -> list[tuple[int, float, float]]:
        """Return epoch, lower and upper border of the band around a line, where both have a value."""
        rows = zip(self.epochs, self.series[name], self.margins[name], strict=True)
        return [
            (epoch, value - margin, value + margin)
            for epoch, value, margin in rows
            if value is not None and margin is not None
        ]
