"""Latencies as an SVG chart: one row per subject, from its fastest run to its 99th percentile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from math import ceil, floor, log10

from archir.backends.speed.measurements import PERCENTILES, Speed, Speeds, count_threads
from archir.pages.charts import Axis, scale, svg_file, text

WIDTH = 860
"""Width of the chart in pixels."""
_LEFT, _RIGHT, _TOP = 230, 100, 64
_ROW, _GROUP, _BOTTOM = 26, 34, 76
_LOG_RATIO = 20
"""Ratio of slowest to fastest run from which on the axis is logarithmic."""

STYLE = (
    ".name{font-weight:600;fill:var(--ink);paint-order:stroke;stroke:var(--paper);stroke-width:5px}"
    ".value{fill:var(--ink);font-variant-numeric:tabular-nums}"
    ".reach{stroke:var(--mark);stroke-width:2;opacity:.55}.most{fill:var(--mark);opacity:.35}"
    ".half{stroke:var(--mark);stroke-width:3}.late{stroke:var(--mark);stroke-width:2}"
)


def picture(speeds: Speeds) -> str:
    """Draw measurements as an SVG chart, grouped by network, batch size and number of threads."""
    counts = sorted({speed.subject.threads for speed in speeds.measurements})

    def heading(speed: Speed) -> str:
        """Return the heading of the group of a measurement."""
        batch = [f"batch {speed.subject.batch}"] if speed.subject.batch > 1 else []
        threads = [count_threads(speed.subject.threads)] if len(counts) > 1 else []
        return ", ".join([speed.subject.name, *batch, *threads])

    first: dict[str, int] = {}
    for speed in speeds.measurements:
        first.setdefault(heading(speed), len(first))
    ordered = sorted(speeds.measurements, key=lambda speed: first[heading(speed)])
    groups = [(name, list(group)) for name, group in groupby(ordered, heading)]
    height = _TOP + sum(_GROUP + _ROW * len(speeds_of_group) for _, speeds_of_group in groups) + _BOTTOM
    threads = count_threads(counts[0]) if len(counts) == 1 else f"{', '.join(map(str, counts))} threads"
    title = f"Latency, {speeds.machine['processor']}, {threads}"
    return svg_file(WIDTH, height, title, (24, 32), STYLE, _rows(groups, height - _BOTTOM))


def _rows(groups: Sequence[tuple[str, Sequence[Speed]]], bottom: float) -> Iterator[str]:
    """Yield the SVG elements of the axis and of all groups."""
    all_speeds = [speed for _, group in groups for speed in group]
    x = axis(
        min(speed.latency.least for speed in all_speeds), max(speed.latency.percentile(99) for speed in all_speeds)
    )
    for tick, label in x.ticks:
        yield f'<path class="rule" d="M{x.at(tick):.1f},{_TOP - 12}V{bottom}"/>'
        yield text(x.at(tick), bottom + 18, label)
    yield f'<path class="axis" d="M{_LEFT},{bottom}H{WIDTH - _RIGHT}"/>'
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield f'<text x="{middle}" y="{bottom + 38}" text-anchor="middle">milliseconds of a run</text>'
    legend = "line: fastest run to p99 · band: the middle half · thick mark and number: median · thin mark: p95"
    yield f'<text x="{middle}" y="{bottom + 58}" text-anchor="middle">{legend}</text>'
    yield f'<text x="{WIDTH - 24}" y="{_TOP - 10}" text-anchor="end">median</text>'
    y = _TOP
    for name, group in groups:
        yield f'<text class="name" x="24" y="{y + 12}">{escape(_shorten(name))}</text>'
        y += _GROUP
        for speed in group:
            yield from _row(speed, y, x)
            y += _ROW


def _row(speed: Speed, y: float, x: Axis) -> Iterator[str]:
    """Yield the SVG elements for a subject at height `y`; `x` is the axis of nanoseconds."""
    latency = speed.latency
    low, half, high, late, last = (x.at(latency.percentile(percent)) for percent in (25, 50, 75, 95, 99))
    percentiles = ", ".join(f"p{percent} {format_milliseconds(latency.percentile(percent))}" for percent in PERCENTILES)
    yield f"<g><title>{escape(speed.subject.on)}: {percentiles} ms, {len(latency.times)} runs</title>"
    yield f'<text x="{_LEFT - 14}" y="{y + 4}" text-anchor="end">{escape(speed.subject.on)}</text>'
    yield f'<path class="reach" d="M{x.at(latency.least):.1f},{y}H{last:.1f}"/>'
    yield f'<rect class="most" x="{low:.1f}" y="{y - 7}" width="{max(high - low, 1):.1f}" height="14"/>'
    yield f'<path class="late" d="M{late:.1f},{y - 5}V{y + 5}"/>'
    yield f'<path class="half" d="M{half:.1f},{y - 8}V{y + 8}"/>'
    median = format_milliseconds(latency.percentile(50))
    yield f'<text class="value" x="{WIDTH - 24}" y="{y + 4}" text-anchor="end">{median}</text></g>'


def axis(least: float, most: float) -> Axis:
    """Return an axis of nanoseconds, labelled in milliseconds.

    It starts at 0; it is logarithmic if the slowest run takes at least _LOG_RATIO times as long as the fastest.
    """
    logarithmic = most >= _LOG_RATIO * least
    if logarithmic:
        decades = range(floor(log10(least)) - 1, ceil(log10(most)) + 2)  # an extra one at each end: log10 rounds
        candidates = [factor * 10.0**power for power in decades for factor in (1, 2, 5)]
        low, high = max(tick for tick in candidates if tick <= least), min(tick for tick in candidates if tick >= most)
        ticks = [tick for tick in candidates if low <= tick <= high]
        if len(ticks) > 10:
            ticks = [tick for tick in ticks if log10(tick) == round(log10(tick))]
    else:
        low, high, step = scale(0, most)
        ticks = [step * number for number in range(round(high / step) + 1)]
    return Axis(low, high, _LEFT, WIDTH - _RIGHT, [(tick, f"{tick / 1e6:g}") for tick in ticks], logarithmic)


def format_milliseconds(ns: float) -> str:
    """Format nanoseconds as milliseconds with four significant digits; from 10,000 ms on, as an integer."""
    return f"{ns / 1e6:.4g}" if ns < 1e10 else f"{ns / 1e6:,.0f}"


def _shorten(name: str) -> str:
    """Shorten a long name to its last characters."""
    return name if len(name) <= 90 else f"…{name[-89:]}"
