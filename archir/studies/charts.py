"""SVG charts of a study. Strategies are distinguished by dashes and markers as well as by colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log10

import numpy as np

from archir.pictures.plot import scale
from archir.runs.report.curves import tick_label
from archir.studies.comparison import BudgetResult, TaskResult

AxisScale = Callable[[float], float]
"""Function from a value to its position along an axis, in pixels."""

WIDTH, HEIGHT = 620, 360
"""Width and height of the plot in pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 20, 16, 44
DASHES = ("", "7 4", "2 3", "9 3 2 3", "14 4", "5 2 2 2 2 2", "1 5")
"""SVG dash patterns by which curves are distinguished."""
COLOURS, SHAPES = 7, 6
"""Number of colours (COLOURS) and of marker shapes (SHAPES)."""
LABEL_HEIGHT = 15
"""Minimum vertical distance between two curve labels, in pixels."""
CHARACTER_WIDTH, MAX_CHARACTERS, _LABEL_MARGIN = 7, 24, 24
"""Width of a character in pixels, maximum characters of a curve label, and pixels between curves and labels."""
_BARS_PER_CURVE = 6
"""Approximate number of interquartile bars drawn per curve."""


def style(number: int) -> tuple[str, str, int]:
    """Return the CSS class, dash pattern and marker of a strategy by its index.

    42 combinations of dashes and markers can be distinguished without colour.
    """
    return f"c{number % COLOURS}", DASHES[(number % SHAPES + number // SHAPES) % len(DASHES)], number % SHAPES


def marker(shape: int, x: float, y: float, colour: str) -> str:
    """Return a marker as SVG, centred at a position: circle, square, triangle, diamond, cross or plus."""
    d = {
        1: "M-4,-4H4V4H-4Z", 2: "M0,-5L5,4H-5Z", 3: "M0,-5.5L5,0L0,5.5L-5,0Z", 4: "M-4,-4L4,4M-4,4L4,-4",
        5: "M-5,0H5M0,-5V5",
    }.get(shape)  # fmt: skip
    at = f'transform="translate({x:.1f},{y:.1f})"'
    if d is None:
        return f'<circle class="shape {colour}" {at} r="4"/>'
    return f'<path class="{"stroke" if shape > 3 else "shape"} {colour}" {at} d="{d}"/>'


def legend_entry(number: int, name: str) -> str:
    """Return the legend entry of one strategy as HTML."""
    colour, dash, shape = style(number)
    line = f'<path class="curve {colour}" stroke-dasharray="{dash}" d="M0,8H44"/>{marker(shape, 22, 8, colour)}'
    return f'<li><svg class="key" width="46" height="16" aria-hidden="true">{line}</svg>{escape(name)}</li>'


def anytime_chart(task: TaskResult, names: Sequence[str]) -> str:
    """Return the chart of median quality over evaluations (logarithmic axis), with bars for interquartile ranges."""
    quartiles = [np.full((3, len(task.evaluations)), np.nan) for _ in names]
    for curve, values in zip(quartiles, task.values, strict=True):
        valid = ~np.isnan(values).all(0) if len(values) else np.zeros(len(task.evaluations), bool)
        curve[:, valid] = np.nanpercentile(values[:, valid], [25, 50, 75], axis=0)
    visible = np.stack(quartiles)[:, :, _shown_points(task)]
    valid = visible[~np.isnan(visible)]
    if not len(valid):
        return "<p>No search found a valid architecture.</p>"
    evaluations = task.evaluations[_shown_points(task)]
    low, high, step = scale(float(valid.min()), float(valid.max()))
    first, last = log10(evaluations[0]), max(log10(evaluations[-1]), log10(evaluations[0]) + 1e-9)

    def x(value: float) -> float:
        return _LEFT + (log10(value) - first) / (last - first) * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    lines = [*_axes(low, high, step, task.percent, y), *_evaluation_axis(evaluations.tolist(), x)]
    line_ends: list[tuple[float, float, int]] = []
    for number, curve in enumerate(visible):
        colour, dash, shape = style(number)
        points = [(x(a), y(b)) for a, b in zip(evaluations.tolist(), curve[1].tolist(), strict=True) if b == b]
        if not points:
            continue
        line_ends.append((points[-1][1], points[-1][0], number))
        path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
        lines.append(f'<path class="curve {colour}" stroke-dasharray="{dash}" d="{path}"/>')
        every = max(1, len(evaluations) // _BARS_PER_CURVE)
        for index in range(number % every, len(evaluations), every):
            lower, middle, upper = curve[:, index].tolist()
            if middle == middle:
                marker_x = x(evaluations[index])
                lines.append(f'<path class="spread {colour}" d="M{marker_x:.1f},{y(lower):.1f}V{y(upper):.1f}"/>')
                lines.append(marker(shape, marker_x, y(middle), colour))
    width = WIDTH + _LABEL_MARGIN + CHARACTER_WIDTH * min(max(map(len, names)), MAX_CHARACTERS)
    lines += _curve_labels(line_ends, names)
    keys = "".join(legend_entry(number, name) for number, name in enumerate(names))
    summary = escape(f"{task.name}: {task.value_name} over evaluations; the data is below")
    return (
        f'<figure class="chart wide"><figcaption>{escape(task.name)}: {escape(task.value_name)}</figcaption>'
        f'<ul class="keys drawn">{keys}</ul><svg viewBox="0 0 {width} {HEIGHT}" role="img" aria-label="{summary}">'
        f"{''.join(lines)}</svg></figure>"
    )


def _curve_labels(line_ends: Sequence[tuple[float, float, int]], names: Sequence[str]) -> Iterator[str]:
    """Yield labels at the right ends of the curves, with markers, spread vertically so that they do not overlap.

    If the labels do not all fit, none are drawn, and only the legend identifies the curves.
    """
    available = HEIGHT - _TOP - _BOTTOM
    if len(line_ends) > available // LABEL_HEIGHT:
        return
    order = sorted(line_ends)
    heights: list[float] = []
    for height, _, _ in order:
        heights.append(max(height, heights[-1] + LABEL_HEIGHT) if heights else height)
    lowest = HEIGHT - _BOTTOM
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], lowest - LABEL_HEIGHT * (len(heights) - 1 - index))
    for (height, end_x, number), label_y in zip(order, heights, strict=True):
        colour, _, shape = style(number)
        name = names[number] if len(names[number]) <= MAX_CHARACTERS else f"{names[number][: MAX_CHARACTERS - 1]}\u2026"
        yield f'<path class="lead" d="M{end_x:.1f},{height:.1f}L{WIDTH + 4},{label_y:.1f}"/>'
        yield marker(shape, WIDTH + 12, label_y, colour)
        yield f'<text class="name" x="{WIDTH + 22}" y="{label_y + 4:.1f}">{escape(name)}</text>'


def _shown_points(task: TaskResult) -> slice:
    """Return the slice of curve points to draw.

    The first few evaluations are left out: they would dominate the value axis.
    """
    begin = int(np.searchsorted(task.evaluations, min(task.evaluations[-1] / 3, max(5.0, task.evaluations[-1] / 30))))
    return slice(begin, None)


def _axes(low: float, high: float, step: float, percent: bool, y_of: AxisScale) -> Iterator[str]:
    """Yield both axis lines, and the labels and grid lines of the vertical axis."""
    for number in range(round((high - low) / step) + 1):
        tick = low + number * step
        yield f'<path class="rule" d="M{_LEFT},{y_of(tick):.1f}H{WIDTH - _RIGHT}"/>'
        text = tick_label(tick, step, percent)
        yield f'<text class="tick" x="{_LEFT - 8}" y="{y_of(tick) + 4:.1f}" text-anchor="end">{text}</text>'
    yield f'<path class="axis" d="M{_LEFT},{_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>'


def _evaluation_axis(evaluations: Sequence[float], x_of: AxisScale) -> Iterator[str]:
    """Yield the labels of the horizontal axis, which shows the number of full evaluations."""
    last = -100.0
    for tick in evaluations:
        if f"{tick:g}"[0] in "125" or tick == evaluations[-1]:
            tick_x = x_of(tick)
            if tick_x - last > 34 and (tick == evaluations[-1] or x_of(evaluations[-1]) - tick_x > 34):
                last = tick_x
                label_y = HEIGHT - _BOTTOM + 18
                yield f'<text class="tick" x="{tick_x:.1f}" y="{label_y}" text-anchor="middle">{tick:g}</text>'
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield f'<text class="tick" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">full evaluations</text>'


def rank_diagram(budget_result: BudgetResult, names: Sequence[str]) -> str:
    """Return a diagram of the strategies' mean ranks, best on the left (Demsar 2006).

    Bars connect groups of strategies that do not differ significantly.
    """
    order = sorted(range(len(names)), key=lambda i: budget_result.ranks[i])
    left, right, top = 40, WIDTH - 40, 40
    max_rank = max(2, len(names))

    def x(rank: float) -> float:
        return left + (rank - 1) / (max_rank - 1) * (right - left)

    lines = [f'<path class="axis" d="M{left},{top}H{right}"/>']
    for rank in range(1, max_rank + 1):
        lines.append(f'<path class="axis" d="M{x(rank):.1f},{top - 6}V{top}"/>')
        lines.append(f'<text class="tick" x="{x(rank):.1f}" y="{top - 12}" text-anchor="middle">{rank}</text>')
    for index, group in enumerate(budget_result.groups):
        group_ranks = sorted(budget_result.ranks[i] for i in group)
        line_y = top + 10 + 8 * index
        lines.append(f'<path class="bar-of" d="M{x(group_ranks[0]) - 4:.1f},{line_y}H{x(group_ranks[-1]) + 4:.1f}"/>')
    below = top + 26 + 8 * len(budget_result.groups)
    for index, strategy in enumerate(order):
        first = index < (len(order) + 1) // 2
        line_y = below + 22 * (index if first else len(order) - 1 - index)
        end, anchor, text_x = (left - 4, "start", left) if first else (right + 4, "end", right)
        colour, _, shape = style(strategy)
        lines.append(f'<path class="lead" d="M{x(budget_result.ranks[strategy]):.1f},{top}V{line_y}H{end}"/>')
        lines.append(marker(shape, x(budget_result.ranks[strategy]), top, colour))
        text = f"{names[strategy][:40]} ({budget_result.ranks[strategy]:.2f})"
        lines.append(f'<text class="name" x="{text_x}" y="{line_y - 4}" text-anchor="{anchor}">{escape(text)}</text>')
    height = below + 22 * ((len(order) + 1) // 2) + 8
    title = f"Mean ranks after {budget_result.budget:g} evaluations"
    return (
        f'<figure class="chart wide"><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{title}; the data is below">{"".join(lines)}</svg></figure>'
    )
