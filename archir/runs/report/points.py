"""Scatter plot of the trials of a phase, score against cost; each point is linked to its table row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from archir.pictures.plot import scale
from archir.runs.report.curves import tick_label
from archir.search.fronts.metric_format import format_metric, is_fraction

WIDTH, HEIGHT = 440, 280
"""Width and height of the plot, in pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 26, 14, 44
"""Margins around the plot area, in pixels."""

Point = tuple[int, float, float]
"""Trial as (id, cost, score)."""


def scatter_figure(phase: str, score: str, cost: str, trials: Sequence[Point], pictures: Mapping[int, str]) -> str:
    """Return a scatter plot as an HTML figure.

    The tooltip of a point shows its numbers and, if `pictures` has one for the trial, its picture (a data URL).
    """
    if not trials:
        return ""
    x_low, x_high, x_step = scale(min(p[1] for p in trials), max(p[1] for p in trials))
    y_low, y_high, y_step = scale(min(p[2] for p in trials), max(p[2] for p in trials))

    def x(value: float) -> float:
        return _LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (value - y_low) / (y_high - y_low) * (HEIGHT - _TOP - _BOTTOM)

    def elements() -> Iterator[str]:
        for number in range(round((y_high - y_low) / y_step) + 1):
            tick = y_low + number * y_step
            yield f'<path class="rule" d="M{_LEFT},{y(tick):.1f}H{WIDTH - _RIGHT}"/>'
            text = tick_label(tick, y_step, is_fraction(score))
            yield f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{text}</text>'
        for number in range(round((x_high - x_low) / x_step) + 1):
            tick = x_low + number * x_step
            text = tick_label(tick, x_step)
            yield f'<text class="tick" x="{x(tick):.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{text}</text>'
        yield f'<path class="axis" d="M{_LEFT},{_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>'
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        yield f'<text class="tick" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(cost)}</text>'
        for number, cost_value, value in trials:
            costs = f"\n{cost}: {cost_value:,.0f}" if cost != "trial" else ""
            caption = f"trial {number}\n{score}: {format_metric(score, value)}{costs}"
            picture = f' data-picture="{escape(pictures[number])}"' if number in pictures else ""
            yield (
                f'<circle class="point" tabindex="0" role="button" aria-label="{escape(caption)}" '
                f'data-trial="{number}" '
                f'data-said="{escape(caption)}"{picture} cx="{x(cost_value):.1f}" cy="{y(value):.1f}" r="4"/>'
            )

    return (
        f'<figure class="chart points" data-phase="{escape(phase)}"><figcaption>{escape(score)} over {escape(cost)}'
        f'</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group">{"".join(elements())}</svg></figure>'
    )
