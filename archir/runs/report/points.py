"""What a phase tried as points: a score over a cost, each point linked with its row of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from archir.pictures.plot import scale
from archir.runs.report.curves import label
from archir.search.fronts.figures import is_part, shown

WIDE, HIGH = 440, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 26, 14, 44

Point = tuple[int, float, float]
"""A trial's id, its cost and its score."""


def points(phase: str, score: str, cost: str, tried: Sequence[Point], pictures: Mapping[int, str]) -> str:
    """A figure of points; one that is pointed at shows its numbers and, if there is one, its picture (a data URL)."""
    if not tried:
        return ""
    x_low, x_high, x_step = scale(min(p[1] for p in tried), max(p[1] for p in tried))
    y_low, y_high, y_step = scale(min(p[2] for p in tried), max(p[2] for p in tried))

    def x(value: float) -> float:
        return _LEFT + (value - x_low) / (x_high - x_low) * (WIDE - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return HIGH - _BOTTOM - (value - y_low) / (y_high - y_low) * (HIGH - _TOP - _BOTTOM)

    def drawn() -> Iterator[str]:
        for number in range(round((y_high - y_low) / y_step) + 1):
            tick = y_low + number * y_step
            yield f'<path class="rule" d="M{_LEFT},{y(tick):.1f}H{WIDE - _RIGHT}"/>'
            text = label(tick, y_step, is_part(score))
            yield f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{text}</text>'
        for number in range(round((x_high - x_low) / x_step) + 1):
            tick = x_low + number * x_step
            text = label(tick, x_step)
            yield f'<text class="tick" x="{x(tick):.1f}" y="{HIGH - _BOTTOM + 18}" text-anchor="middle">{text}</text>'
        yield f'<path class="axis" d="M{_LEFT},{_TOP}V{HIGH - _BOTTOM}H{WIDE - _RIGHT}"/>'
        middle = (_LEFT + WIDE - _RIGHT) / 2
        yield f'<text class="tick" x="{middle}" y="{HIGH - 8}" text-anchor="middle">{escape(cost)}</text>'
        for number, at, value in tried:
            costs = f"\n{cost}: {at:,.0f}" if cost != "trial" else ""
            said = f"trial {number}\n{score}: {shown(score, value)}{costs}"
            picture = f' data-picture="{escape(pictures[number])}"' if number in pictures else ""
            yield (
                f'<circle class="point" tabindex="0" role="button" aria-label="{escape(said)}" data-trial="{number}" '
                f'data-said="{escape(said)}"{picture} cx="{x(at):.1f}" cy="{y(value):.1f}" r="4"/>'
            )

    return (
        f'<figure class="chart points" data-phase="{escape(phase)}"><figcaption>{escape(score)} over {escape(cost)}'
        f'</figcaption><svg viewBox="0 0 {WIDE} {HIGH}" role="group">{"".join(drawn())}</svg></figure>'
    )
