"""SVG charts of a study. Strategies are distinguished by dashes and markers as well as by colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from archir.pages.charts import COLOURS, Axis, curve, figure, frame, text
from archir.studies.comparison import BudgetResult, TaskResult

WIDTH, HEIGHT = 620, 360
"""Width and height of the plot in pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 20, 16, 44
_TICK_WIDTH = 34
"""Minimum distance in pixels between two ticks of the horizontal axis."""
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "14 4", "5 2 2 2 2 2", "1 5")
"""SVG dash patterns by which curves are distinguished."""
_SHAPES = (
    "", "M-4,-4H4V4H-4Z", "M0,-5L5,4H-5Z", "M0,-5.5L5,0L0,5.5L-5,0Z", "M-4,-4L4,4M-4,4L4,-4", "M-5,0H5M0,-5V5",
)  # fmt: skip
"""SVG path data of markers: circle (which has none), square, triangle, diamond, cross and plus."""
LABEL_HEIGHT = 15
"""Minimum vertical distance between two curve labels, in pixels."""
CHARACTER_WIDTH, MAX_CHARACTERS, _LABEL_MARGIN = 7, 24, 24
"""Width of a character in pixels, maximum characters of a curve label, and pixels between curves and labels."""
_BARS_PER_CURVE = 6
"""Approximate number of interquartile bars drawn per curve."""


def _style(number: int) -> tuple[str, str]:
    """Return the CSS class and the dash pattern of a strategy by its index.

    42 combinations of dashes and markers can be distinguished without colour.
    """
    shapes = len(_SHAPES)
    return f"c{number % COLOURS}", _DASHES[(number % shapes + number // shapes) % len(_DASHES)]


def _marker(number: int, x: float, y: float) -> str:
    at, (colour, _), path = f'transform="translate({x:.1f},{y:.1f})"', _style(number), _SHAPES[number % len(_SHAPES)]
    if not path:
        return f'<circle class="shape {colour}" {at} r="4"/>'
    return f'<path class="{"shape" if path.endswith("Z") else "stroke"} {colour}" {at} d="{path}"/>'


def _legend_entry(number: int, name: str) -> str:
    colour, dash = _style(number)
    line = f'<path class="curve {colour}" stroke-dasharray="{dash}" d="M0,8H44"/>{_marker(number, 22, 8)}'
    return (
        f'<li class="drawn"><svg class="key" width="46" height="16" aria-hidden="true">{line}</svg>{escape(name)}</li>'
    )


def anytime_chart(task: TaskResult, names: Sequence[str]) -> str:
    """Return the chart of median quality over evaluations (logarithmic axis), with bars for interquartile ranges."""
    quartiles = [np.full((3, len(task.evaluations)), np.nan) for _ in names]
    for rows, values in zip(quartiles, task.values, strict=True):
        valid = ~np.isnan(values).all(0) if len(values) else np.zeros(len(task.evaluations), bool)
        rows[:, valid] = np.nanpercentile(values[:, valid], [25, 50, 75], axis=0)
    # the first few evaluations are left out: they would dominate the value axis
    last = task.evaluations[-1]
    begin = int(np.searchsorted(task.evaluations, min(last / 3, max(5.0, last / 30))))
    visible, evaluations = np.stack(quartiles)[:, :, begin:], task.evaluations[begin:].tolist()
    shown = visible[~np.isnan(visible)]
    if not len(shown):
        return "<p>No search found a valid architecture.</p>"
    x = _evaluation_axis(evaluations)
    y = Axis.linear([float(shown.min()), float(shown.max())], HEIGHT - _BOTTOM, _TOP, task.percent)
    elements = [*frame(x, y, "full evaluations")]
    line_ends: list[tuple[float, float, int]] = []
    every = max(1, len(evaluations) // _BARS_PER_CURVE)
    for number, rows in enumerate(visible):
        colour, dash = _style(number)
        points = [(x.at(a), y.at(b)) for a, b in zip(evaluations, rows[1].tolist(), strict=True) if b == b]
        if not points:
            continue
        line_ends.append((points[-1][1], points[-1][0], number))
        elements.append(f'<path class="curve {colour}" stroke-dasharray="{dash}" d="{curve(points)}"/>')
        for index in range(number % every, len(evaluations), every):
            lower, middle, upper = rows[:, index].tolist()
            if middle == middle:
                at = x.at(evaluations[index])
                bar = f"M{at:.1f},{y.at(lower):.1f}V{y.at(upper):.1f}"
                elements += [f'<path class="spread {colour}" d="{bar}"/>', _marker(number, at, y.at(middle))]
    elements += _curve_labels(line_ends, names)
    width = WIDTH + _LABEL_MARGIN + CHARACTER_WIDTH * min(max(map(len, names)), MAX_CHARACTERS)
    title = f"{task.name}: {task.value_name}"
    keys = (_legend_entry(number, name) for number, name in enumerate(names))
    return figure(title, elements, width, HEIGHT, "chart wide", keys, f"{title} over evaluations; the data is below")


def _evaluation_axis(evaluations: Sequence[float]) -> Axis:
    """Return the logarithmic horizontal axis, which shows the number of full evaluations."""
    low, high = evaluations[0], evaluations[-1]
    axis = Axis(low, max(high, low * (1 + 1e-9)), _LEFT, WIDTH - _RIGHT, logarithmic=True)
    ticks: list[float] = []
    for tick in evaluations:
        is_round = f"{tick:g}"[0] in "125" and axis.at(high) - axis.at(tick) > _TICK_WIDTH
        if tick == high or (is_round and (not ticks or axis.at(tick) - axis.at(ticks[-1]) > _TICK_WIDTH)):
            ticks.append(tick)
    return Axis(axis.low, axis.high, axis.first, axis.last, [(tick, f"{tick:g}") for tick in ticks], logarithmic=True)


def _curve_labels(line_ends: Sequence[tuple[float, float, int]], names: Sequence[str]) -> Iterator[str]:
    """Yield labels at the right ends of the curves, with markers, spread vertically so that they do not overlap.

    If the labels do not all fit, none are drawn, and only the legend identifies the curves.
    """
    if len(line_ends) > (HEIGHT - _TOP - _BOTTOM) // LABEL_HEIGHT:
        return
    order = sorted(line_ends)
    heights: list[float] = []
    for height, _, _ in order:
        heights.append(max(height, heights[-1] + LABEL_HEIGHT) if heights else height)
    lowest = HEIGHT - _BOTTOM
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], lowest - LABEL_HEIGHT * (len(heights) - 1 - index))
    for (height, end_x, number), label_y in zip(order, heights, strict=True):
        name = names[number] if len(names[number]) <= MAX_CHARACTERS else f"{names[number][: MAX_CHARACTERS - 1]}\u2026"
        yield f'<path class="lead" d="M{end_x:.1f},{height:.1f}L{WIDTH + 4},{label_y:.1f}"/>'
        yield _marker(number, WIDTH + 12, label_y)
        yield text(WIDTH + 22, label_y + 4, name, "start", "name")


def rank_diagram(result: BudgetResult, names: Sequence[str]) -> str:
    """Return a diagram of the strategies' mean ranks, best on the left (Demsar 2006).

    Bars connect groups of strategies that do not differ significantly.
    """
    order = sorted(range(len(names)), key=lambda i: result.ranks[i])
    left, right, top = 40, WIDTH - 40, 40
    highest = max(2, len(names))
    x = Axis(1, highest, left, right)
    lines = [f'<path class="axis" d="M{left},{top}H{right}"/>']
    for rank in range(1, highest + 1):
        lines.append(f'<path class="axis" d="M{x.at(rank):.1f},{top - 6}V{top}"/>')
        lines.append(text(x.at(rank), top - 12, str(rank)))
    for index, group in enumerate(result.groups):
        first, *_, last = sorted(x.at(result.ranks[i]) for i in group)
        lines.append(f'<path class="bar-of" d="M{first - 4:.1f},{top + 10 + 8 * index}H{last + 4:.1f}"/>')
    below, half = top + 26 + 8 * len(result.groups), (len(order) + 1) // 2
    for index, strategy in enumerate(order):
        at = x.at(result.ranks[strategy])
        line_y = below + 22 * (index if index < half else len(order) - 1 - index)
        end, anchor, text_x = (left - 4, "start", left) if index < half else (right + 4, "end", right)
        lines.append(f'<path class="lead" d="M{at:.1f},{top}V{line_y}H{end}"/>')
        lines.append(_marker(strategy, at, top))
        label = f"{names[strategy][:40]} ({result.ranks[strategy]:.2f})"
        lines.append(text(text_x, line_y - 4, label, anchor, "name"))
    title = f"Mean ranks after {result.budget:g} evaluations"
    return figure(title, lines, WIDTH, below + 22 * half + 8, "chart wide", label=f"{title}; the data is below")
