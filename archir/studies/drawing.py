"""Figures of a study as SVG. Strategies differ by dashes and marks as well as by colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log10

import numpy as np

from archir.pictures.plot import scale
from archir.runs.report.curves import label
from archir.studies.compared import AtBudget, OnTask

Place = Callable[[float], float]
"""Where a value is along an axis."""

WIDE, HIGH = 620, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 20, 16, 44
DASHES = ("", "7 4", "2 3", "9 3 2 3", "14 4", "5 2 2 2 2 2", "1 5")
COLOURS, SHAPES = 7, 6
LINE = 15
"""From one name of a curve to the next."""
CHARACTER, MOST_CHARACTERS, _BESIDE = 7, 24, 24
"""How wide one is at most, how many of a name there are beside curves, and how far these are away."""
_SPREAD = 6
"""Quartiles that a curve shows."""


def style(number: int) -> tuple[str, str, int]:
    """The class, the dashes and the shape of a strategy: 42 pairs of dashes and shape, which differ without colours."""
    return f"c{number % COLOURS}", DASHES[(number % SHAPES + number // SHAPES) % len(DASHES)], number % SHAPES


def mark(shape: int, x: float, y: float, colour: str) -> str:
    """A small shape at a place: circle, square, triangle, diamond, cross, plus."""
    d = {
        1: "M-4,-4H4V4H-4Z", 2: "M0,-5L5,4H-5Z", 3: "M0,-5.5L5,0L0,5.5L-5,0Z", 4: "M-4,-4L4,4M-4,4L4,-4",
        5: "M-5,0H5M0,-5V5",
    }.get(shape)  # fmt: skip
    at = f'transform="translate({x:.1f},{y:.1f})"'
    if d is None:
        return f'<circle class="shape {colour}" {at} r="4"/>'
    return f'<path class="{"stroke" if shape > 3 else "shape"} {colour}" {at} d="{d}"/>'


def key(number: int, name: str) -> str:
    """A line of the legend."""
    colour, dash, shape = style(number)
    line = f'<path class="curve {colour}" stroke-dasharray="{dash}" d="M0,8H44"/>{mark(shape, 22, 8, colour)}'
    return f'<li><svg class="key" width="46" height="16" aria-hidden="true">{line}</svg>{escape(name)}</li>'


def anytime(task: OnTask, names: Sequence[str]) -> str:
    """Medians over evaluations, on a logarithmic axis, and bars from quartile to quartile."""
    quartiles = [np.full((3, len(task.at)), np.nan) for _ in names]
    for one, values in zip(quartiles, task.values, strict=True):
        known = ~np.isnan(values).all(0) if len(values) else np.zeros(len(task.at), bool)
        one[:, known] = np.nanpercentile(values[:, known], [25, 50, 75], axis=0)
    shown = np.stack(quartiles)[:, :, _shown(task)]
    known = shown[~np.isnan(shown)]
    if not len(known):
        return "<p>Nothing was found.</p>"
    at = task.at[_shown(task)]
    low, high, step = scale(float(known.min()), float(known.max()))
    first, last = log10(at[0]), max(log10(at[-1]), log10(at[0]) + 1e-9)

    def x(value: float) -> float:
        return _LEFT + (log10(value) - first) / (last - first) * (WIDE - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return HIGH - _BOTTOM - (value - low) / (high - low) * (HIGH - _TOP - _BOTTOM)

    lines = [*_axes(low, high, step, task.percent, y), *_evaluations(at.tolist(), x)]
    ends: list[tuple[float, float, int]] = []
    for number, one in enumerate(shown):
        colour, dash, shape = style(number)
        points = [(x(a), y(b)) for a, b in zip(at.tolist(), one[1].tolist(), strict=True) if b == b]
        if not points:
            continue
        ends.append((points[-1][1], points[-1][0], number))
        path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
        lines.append(f'<path class="curve {colour}" stroke-dasharray="{dash}" d="{path}"/>')
        every = max(1, len(at) // _SPREAD)
        for place in range(number % every, len(at), every):
            lower, middle, upper = one[:, place].tolist()
            if middle == middle:
                across = x(at[place])
                lines.append(f'<path class="spread {colour}" d="M{across:.1f},{y(lower):.1f}V{y(upper):.1f}"/>')
                lines.append(mark(shape, across, y(middle), colour))
    wide = WIDE + _BESIDE + CHARACTER * min(max(map(len, names)), MOST_CHARACTERS)
    lines += _labels(ends, names)
    keys = "".join(key(number, name) for number, name in enumerate(names))
    said = escape(f"{task.name}: {task.of} over evaluations; the numbers are below")
    return (
        f'<figure class="chart wide"><figcaption>{escape(task.name)}: {escape(task.of)}</figcaption>'
        f'<ul class="keys drawn">{keys}</ul><svg viewBox="0 0 {wide} {HIGH}" role="img" aria-label="{said}">'
        f"{''.join(lines)}</svg></figure>"
    )


def _labels(ends: Sequence[tuple[float, float, int]], names: Sequence[str]) -> Iterator[str]:
    """The names of curves beside their ends, each with its shape, as far apart as texts need. Where they are too many
    for that, the legend says alone which is which."""
    room = HIGH - _TOP - _BOTTOM
    if len(ends) > room // LINE:
        return
    order = sorted(ends)
    heights: list[float] = []
    for height, _, _ in order:
        heights.append(max(height, heights[-1] + LINE) if heights else height)
    lowest = HIGH - _BOTTOM
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], lowest - LINE * (len(heights) - 1 - place))
    for (height, across, number), beside in zip(order, heights, strict=True):
        colour, _, shape = style(number)
        name = (
            names[number] if len(names[number]) <= MOST_CHARACTERS else f"{names[number][: MOST_CHARACTERS - 1]}\u2026"
        )
        yield f'<path class="lead" d="M{across:.1f},{height:.1f}L{WIDE + 4},{beside:.1f}"/>'
        yield mark(shape, WIDE + 12, beside, colour)
        yield f'<text class="name" x="{WIDE + 22}" y="{beside + 4:.1f}">{escape(name)}</text>'


def _shown(task: OnTask) -> slice:
    """Points from the one on from which every strategy's median is there, but for the first few: they hide the rest."""
    begin = int(np.searchsorted(task.at, min(task.at[-1] / 3, max(5.0, task.at[-1] / 30))))
    return slice(begin, None)


def _axes(low: float, high: float, step: float, percent: bool, place: Place) -> Iterator[str]:
    for number in range(round((high - low) / step) + 1):
        tick = low + number * step
        yield f'<path class="rule" d="M{_LEFT},{place(tick):.1f}H{WIDE - _RIGHT}"/>'
        text = label(tick, step, percent)
        yield f'<text class="tick" x="{_LEFT - 8}" y="{place(tick) + 4:.1f}" text-anchor="end">{text}</text>'
    yield f'<path class="axis" d="M{_LEFT},{_TOP}V{HIGH - _BOTTOM}H{WIDE - _RIGHT}"/>'


def _evaluations(at: Sequence[float], x: Place) -> Iterator[str]:
    last = -100.0
    for one in at:
        if f"{one:g}"[0] in "125" or one == at[-1]:
            place = x(one)
            if place - last > 34 and (one == at[-1] or x(at[-1]) - place > 34):
                last = place
                down = HIGH - _BOTTOM + 18
                yield f'<text class="tick" x="{place:.1f}" y="{down}" text-anchor="middle">{one:g}</text>'
    middle = (_LEFT + WIDE - _RIGHT) / 2
    yield f'<text class="tick" x="{middle}" y="{HIGH - 8}" text-anchor="middle">full evaluations</text>'


def differences(of: AtBudget, names: Sequence[str]) -> str:
    """Mean ranks on a line, the best on the left; bars join those that are not told apart (Demsar 2006)."""
    order = sorted(range(len(names)), key=lambda i: of.ranks[i])
    left, right, top = 40, WIDE - 40, 40
    most = max(2, len(names))

    def x(rank: float) -> float:
        return left + (rank - 1) / (most - 1) * (right - left)

    lines = [f'<path class="axis" d="M{left},{top}H{right}"/>']
    for rank in range(1, most + 1):
        lines.append(f'<path class="axis" d="M{x(rank):.1f},{top - 6}V{top}"/>')
        lines.append(f'<text class="tick" x="{x(rank):.1f}" y="{top - 12}" text-anchor="middle">{rank}</text>')
    for place, group in enumerate(of.groups):
        ends = sorted(of.ranks[i] for i in group)
        down = top + 10 + 8 * place
        lines.append(f'<path class="bar-of" d="M{x(ends[0]) - 4:.1f},{down}H{x(ends[-1]) + 4:.1f}"/>')
    below = top + 26 + 8 * len(of.groups)
    for place, one in enumerate(order):
        first = place < (len(order) + 1) // 2
        down = below + 22 * (place if first else len(order) - 1 - place)
        end, anchor, at = (left - 4, "start", left) if first else (right + 4, "end", right)
        colour, _, shape = style(one)
        lines.append(f'<path class="lead" d="M{x(of.ranks[one]):.1f},{top}V{down}H{end}"/>')
        lines.append(mark(shape, x(of.ranks[one]), top, colour))
        text = f"{names[one][:40]} ({of.ranks[one]:.2f})"
        lines.append(f'<text class="name" x="{at}" y="{down - 4}" text-anchor="{anchor}">{escape(text)}</text>')
    high = below + 22 * ((len(order) + 1) // 2) + 8
    title = f"Mean ranks after {of.budget:g} evaluations"
    return (
        f'<figure class="chart wide"><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDE} {high}" role="img" '
        f'aria-label="{title}; the numbers are below">{"".join(lines)}</svg></figure>'
    )
