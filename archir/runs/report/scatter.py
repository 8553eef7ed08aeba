"""Scatter plot of a search's trials over two objectives, as an SVG file in the style of the report charts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape

from archir.pictures.plot import plot, scale
from archir.runs.report.curves import tick_label
from archir.search.candidate import Candidate, Scores
from archir.search.fronts.listing import format_value, heading
from archir.search.fronts.metric_format import is_fraction
from archir.search.objectives import Objective

WIDTH, HEIGHT = 640, 420
"""Width and height of the plot, in pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 20, 44, 52
"""Margins around the plot area, in pixels."""

STYLE = (
    ".trial{fill:var(--soft);opacity:.35}.front{fill:var(--mark)}"
    ".edge{fill:none;stroke:var(--mark);stroke-width:1.5;stroke-linejoin:round}"
)
"""CSS for the points and the boundary of the front."""


class _Axis:
    """Linear axis that maps values of an objective to the pixel range from `first` to `last`."""

    def __init__(self, objective: Objective, values: Sequence[float], first: float, last: float) -> None:
        self.name, self.first, self.last = objective.name, first, last
        self.low, self.high, self.step = scale(min(values), max(values))
        self.caption = f"{heading(self.name)} ({'more' if objective.maximize else 'less'} is better)"

    def at(self, value: float) -> float:
        """Return the pixel coordinate of a value."""
        return self.first + (value - self.low) / (self.high - self.low) * (self.last - self.first)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield (pixel coordinate, label) for each tick."""
        for number in range(round((self.high - self.low) / self.step) + 1):
            tick = self.low + number * self.step
            yield self.at(tick), tick_label(tick, self.step, is_fraction(self.name)).removesuffix("%")


def scatter(
    trials: Sequence[tuple[Candidate, Scores]], front: Collection[int], objectives: Sequence[Objective], title: str
) -> str:
    """Return an SVG scatter plot of trials; `front` holds the ids of the trials on the Pareto front.

    The vertical axis is the first objective, the horizontal axis the second. If there are exactly two, the
    boundary of the dominated region is drawn as well. Without trials, the plot has no axes.
    """
    return plot(WIDTH, HEIGHT, title, (_LEFT, 26), STYLE, _elements(trials, front, objectives) if trials else ())


def _elements(
    trials: Sequence[tuple[Candidate, Scores]], front: Collection[int], objectives: Sequence[Objective]
) -> Iterator[str]:
    """Yield the SVG elements of a plot."""
    up, right = objectives[:2]
    x = _Axis(right, [scores[right.name] for _, scores in trials], _LEFT, WIDTH - _RIGHT)
    y = _Axis(up, [scores[up.name] for _, scores in trials], HEIGHT - _BOTTOM, _TOP)
    for position, text in x.ticks():
        yield f'<text x="{_coordinate(position)}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{text}</text>'
    for position, text in y.ticks():
        yield f'<path class="rule" d="M{_LEFT},{_coordinate(position)}H{WIDTH - _RIGHT}"/>'
        yield f'<text x="{_LEFT - 8}" y="{_coordinate(position + 4)}" text-anchor="end">{text}</text>'
    yield f'<path class="axis" d="M{_LEFT},{_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>'
    yield f'<text x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x.caption)}</text>'
    middle = (_TOP + HEIGHT - _BOTTOM) / 2
    yield f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{escape(y.caption)}</text>'
    best = sorted(
        (x.at(scores[right.name]), y.at(scores[up.name])) for candidate, scores in trials if candidate.id in front
    )
    if len(objectives) == 2 and best:
        yield f'<path class="edge" d="{_edge(best if not right.maximize else best[::-1])}"/>'
    for group, radius in (("trial", 2.6), ("front", 4.2)):
        for candidate, scores in trials:
            if (candidate.id in front) == (group == "front"):
                centre = f'cx="{_coordinate(x.at(scores[right.name]))}" cy="{_coordinate(y.at(scores[up.name]))}"'
                scores_text = ", ".join(
                    f"{heading(objective.name)} {format_value(objective.name, scores[objective.name])}"
                    for objective in objectives
                )
                tip = escape(f"trial {candidate.id}: {scores_text}")
                yield f'<circle class="{group}" {centre} r="{radius}"><title>{tip}</title></circle>'


def _edge(points: Sequence[tuple[float, float]]) -> str:
    """Return the SVG path data of the boundary of the dominated region, as a staircase through the front's points."""
    (x, y), *others = points
    return f"M{_coordinate(x)},{_coordinate(y)}" + "".join(f"H{_coordinate(x)}V{_coordinate(y)}" for x, y in others)


def _coordinate(value: float) -> str:
    """Format a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
