"""Trials of a search as points in a plane of two objectives: an SVG file, in the style of the curves of reports."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape

from archir.pictures.plot import plot, scale
from archir.runs.report.curves import label
from archir.search.candidate import Candidate, Scores
from archir.search.fronts.figures import is_part
from archir.search.fronts.listing import heading, shown
from archir.search.objectives import Objective

WIDE, HIGH = 640, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 20, 44, 52

STYLE = (
    ".trial{fill:var(--soft);opacity:.35}.front{fill:var(--mark)}"
    ".edge{fill:none;stroke:var(--mark);stroke-width:1.5;stroke-linejoin:round}"
)


class _Axis:
    """Where the values of an objective are, between two places in pixels."""

    def __init__(self, objective: Objective, values: Sequence[float], first: float, last: float) -> None:
        self.name, self.first, self.last = objective.name, first, last
        self.low, self.high, self.step = scale(min(values), max(values))
        self.caption = f"{heading(self.name)} ({'more' if objective.most else 'less'} is better)"

    def at(self, value: float) -> float:
        return self.first + (value - self.low) / (self.high - self.low) * (self.last - self.first)

    def ticks(self) -> Iterator[tuple[float, str]]:
        for number in range(round((self.high - self.low) / self.step) + 1):
            tick = self.low + number * self.step
            yield self.at(tick), label(tick, self.step, is_part(self.name)).removesuffix("%")


def scatter(
    trials: Sequence[tuple[Candidate, Scores]], front: Collection[int], objectives: Sequence[Objective], title: str
) -> str:
    """The picture of trials by their scores, of which the ids in `front` are on it.

    The second objective lies to the right, the first upwards. Of two objectives, the edge of what the front dominates
    is drawn as well. Without trials there are no axes.
    """
    return plot(WIDE, HIGH, title, (_LEFT, 26), STYLE, _drawn(trials, front, objectives) if trials else ())


def _drawn(
    trials: Sequence[tuple[Candidate, Scores]], front: Collection[int], objectives: Sequence[Objective]
) -> Iterator[str]:
    up, right = objectives[:2]
    x = _Axis(right, [scores[right.name] for _, scores in trials], _LEFT, WIDE - _RIGHT)
    y = _Axis(up, [scores[up.name] for _, scores in trials], HIGH - _BOTTOM, _TOP)
    for place, text in x.ticks():
        yield f'<text x="{_n(place)}" y="{HIGH - _BOTTOM + 18}" text-anchor="middle">{text}</text>'
    for place, text in y.ticks():
        yield f'<path class="rule" d="M{_LEFT},{_n(place)}H{WIDE - _RIGHT}"/>'
        yield f'<text x="{_LEFT - 8}" y="{_n(place + 4)}" text-anchor="end">{text}</text>'
    yield f'<path class="axis" d="M{_LEFT},{_TOP}V{HIGH - _BOTTOM}H{WIDE - _RIGHT}"/>'
    yield f'<text x="{(_LEFT + WIDE - _RIGHT) / 2}" y="{HIGH - 12}" text-anchor="middle">{escape(x.caption)}</text>'
    middle = (_TOP + HIGH - _BOTTOM) / 2
    yield f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{escape(y.caption)}</text>'
    best = sorted(
        (x.at(scores[right.name]), y.at(scores[up.name])) for candidate, scores in trials if candidate.id in front
    )
    if len(objectives) == 2 and best:
        yield f'<path class="edge" d="{_edge(best if not right.most else best[::-1])}"/>'
    for group, radius in (("trial", 2.6), ("front", 4.2)):
        for candidate, scores in trials:
            if (candidate.id in front) == (group == "front"):
                centre = f'cx="{_n(x.at(scores[right.name]))}" cy="{_n(y.at(scores[up.name]))}"'
                said = ", ".join(f"{heading(one.name)} {shown(one.name, scores[one.name])}" for one in objectives)
                tip = escape(f"trial {candidate.id}: {said}")
                yield f'<circle class="{group}" {centre} r="{radius}"><title>{tip}</title></circle>'


def _edge(points: Sequence[tuple[float, float]]) -> str:
    """Steps from the best to the right to the best upwards: what lies behind them is dominated."""
    (x, y), *others = points
    return f"M{_n(x)},{_n(y)}" + "".join(f"H{_n(x)}V{_n(y)}" for x, y in others)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
