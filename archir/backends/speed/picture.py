"""Latencies as an SVG file: a row for each subject, from its fastest run to its 99th percentile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import groupby
from math import ceil, floor, log10

from archir.backends.speed.figures import Speed, Speeds
from archir.pictures.plot import plot, scale

WIDE = 860
_LEFT, _RIGHT, _TOP = 230, 100, 64
_ROW, _GROUP, _BOTTOM = 26, 34, 76
_FAR = 20
"""Slowest to fastest, from which on the axis is logarithmic."""

STYLE = (
    ".name{font-weight:600;fill:var(--ink);paint-order:stroke;stroke:var(--paper);stroke-width:5px}"
    ".value{fill:var(--ink);font-variant-numeric:tabular-nums}"
    ".reach{stroke:var(--mark);stroke-width:2;opacity:.55}.most{fill:var(--mark);opacity:.35}"
    ".half{stroke:var(--mark);stroke-width:3}.late{stroke:var(--mark);stroke-width:2}"
)


def picture(speeds: Speeds) -> str:
    """The picture of what was measured, grouped by network and batch."""
    groups = [
        (f"{name}, batch {batch}" if batch > 1 else name, list(found))
        for (name, batch), found in groupby(speeds.found, lambda one: (one.subject.name, one.subject.batch))
    ]
    high = _TOP + sum(_GROUP + _ROW * len(found) for _, found in groups) + _BOTTOM
    threads = speeds.found[0].threads
    title = f"Latency, {speeds.machine['processor']}, {threads} thread{'s' * (threads > 1)}"
    return plot(WIDE, high, title, (24, 32), STYLE, _rows(groups, high - _BOTTOM))


def _rows(groups: Sequence[tuple[str, Sequence[Speed]]], bottom: float) -> Iterator[str]:
    found = [one for _, group in groups for one in group]
    ticks, x = axis(min(one.latency.least for one in found), max(one.latency.percentile(99) for one in found))
    for tick in ticks:
        yield f'<path class="rule" d="M{x(tick):.1f},{_TOP - 12}V{bottom}"/>'
        yield f'<text x="{x(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick / 1e6:g}</text>'
    yield f'<path class="axis" d="M{_LEFT},{bottom}H{WIDE - _RIGHT}"/>'
    middle = (_LEFT + WIDE - _RIGHT) / 2
    yield f'<text x="{middle}" y="{bottom + 38}" text-anchor="middle">milliseconds of a run</text>'
    legend = "line: fastest run to p99 · band: the middle half · thick mark and number: median · thin mark: p90"
    yield f'<text x="{middle}" y="{bottom + 58}" text-anchor="middle">{legend}</text>'
    yield f'<text x="{WIDE - 24}" y="{_TOP - 10}" text-anchor="end">median</text>'
    y = _TOP
    for name, group in groups:
        yield f'<text class="name" x="24" y="{y + 12}">{escape(_short(name))}</text>'
        y += _GROUP
        for one in group:
            yield from _row(one, y, x)
            y += _ROW


def _row(one: Speed, y: float, x: Callable[[float], float]) -> Iterator[str]:
    latency = one.latency
    low, half, high, late, last = (x(latency.percentile(percent)) for percent in (25, 50, 75, 90, 99))
    told = ", ".join(f"p{percent} {milliseconds(latency.percentile(percent))}" for percent in (50, 90, 99))
    yield f"<g><title>{escape(one.subject.on)}: {told} ms, {len(latency.times)} runs</title>"
    yield f'<text x="{_LEFT - 14}" y="{y + 4}" text-anchor="end">{escape(one.subject.on)}</text>'
    yield f'<path class="reach" d="M{x(latency.least):.1f},{y}H{last:.1f}"/>'
    yield f'<rect class="most" x="{low:.1f}" y="{y - 7}" width="{max(high - low, 1):.1f}" height="14"/>'
    yield f'<path class="late" d="M{late:.1f},{y - 5}V{y + 5}"/>'
    yield f'<path class="half" d="M{half:.1f},{y - 8}V{y + 8}"/>'
    median = milliseconds(latency.percentile(50))
    yield f'<text class="value" x="{WIDE - 24}" y="{y + 4}" text-anchor="end">{median}</text></g>'


def axis(least: float, most: float) -> tuple[list[float], Callable[[float], float]]:
    """Nanoseconds that are marked, and where nanoseconds lie in pixels: from zero, or of logarithms where they are far
    apart."""
    wide = WIDE - _LEFT - _RIGHT
    if most < _FAR * least:
        _, top, step = scale(0, most)
        return [step * number for number in range(round(top / step) + 1)], lambda ns: _LEFT + wide * ns / top
    decades = range(floor(log10(least)) - 1, ceil(log10(most)) + 2)  # one more at each end: logarithms are rounded
    marks = [factor * 10.0**power for power in decades for factor in (1, 2, 5)]
    below, above = max(mark for mark in marks if mark <= least), min(mark for mark in marks if mark >= most)
    span = log10(above / below)
    shown = [mark for mark in marks if below <= mark <= above]
    if len(shown) > 10:
        shown = [mark for mark in shown if log10(mark) == round(log10(mark))]
    return shown, lambda ns: _LEFT + wide * log10(ns / below) / span


def milliseconds(ns: float) -> str:
    """Four digits of a time, or as many as it has before the point."""
    return f"{ns / 1e6:.4g}" if ns < 1e10 else f"{ns / 1e6:,.0f}"


def _short(name: str) -> str:
    return name if len(name) <= 90 else f"…{name[-89:]}"
