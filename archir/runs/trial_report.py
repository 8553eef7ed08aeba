"""Parts of a run's report on its trials: the front, importance of choices, and a table to sort and filter."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.pages.charts import Axis, figure, frame, pixel, svg_file
from archir.pages.page import Html, Number, data_url, details, sortable_table, table
from archir.search.candidate import Candidate, Scores
from archir.search.fronts import format_value, heading
from archir.search.objectives import Objective
from archir.utils.metrics import format_metric, is_fraction

MAX_LISTED = 2_000
"""Maximum number of candidates listed per phase; the first ones are listed."""
MIN_TRIALS = 12
"""Minimum number of trials for estimating importance. Of 12 random trials with equally good choices, 3% of the choices
have an interval above 5%; of 20, 2%."""
BOOTSTRAP_SAMPLES = 200
"""Number of bootstrap samples."""
MAX_IMPORTANCES = 10
"""Maximum number of choices whose importance is listed without a click, most important first."""
MAX_FRONT = 30
"""Maximum number of candidates of a front that are listed."""
_INACTIVE = "not used"
"""Label that stands for the outcome of a choice in trials in which it is inactive."""
_FRONT_STYLE = (
    ".trial{fill:var(--soft);opacity:.35}.front{fill:var(--mark)}"
    ".edge{fill:none;stroke:var(--mark);stroke-width:1.5;stroke-linejoin:round}"
)
"""CSS for the points and the boundary of the front."""


@dataclass(frozen=True)
class TrialRow:
    """Candidate of a phase: id, scores (None for those that it lacks because it failed), costs, and choices.

    `budget` is the fraction of the full training budget with which it was scored.
    """

    id: int
    scores: Mapping[str, float | None]
    costs: Mapping[str, float]
    choices: Mapping[str, Any]
    error: str | None = None
    budget: float = 1.0


@dataclass(frozen=True)
class TrialTable:
    """Candidates of a phase in the order of proposal.

    `command(id)` returns the shell command that trains a candidate. Candidates are ranked by `score`; `larger`
    tells whether larger values are better. `other` is the score or cost on the horizontal axis of the front,
    `other_larger` tells whether larger values of it are better, and `limit` is an upper bound on it.
    `front` are the ids of the non-dominated candidates, best first, if the search had several objectives; otherwise,
    they are those of `score` and `other`. `pictures` maps ids of some candidates to SVG documents.
    """

    phase: str
    rows: Sequence[TrialRow]
    command: Callable[[int], str]
    score: str = ""
    larger: bool = True
    pictures: Mapping[int, str] = field(default_factory=dict)
    other: str = ""
    other_larger: bool = False
    limit: float | None = None
    front: Sequence[int] = ()

    @property
    def comparable(self) -> list[tuple[TrialRow, float]]:
        """(candidate, score) pairs in the order of proposal, of the candidates that have the score and, of these, the
        largest training budget."""
        scored = [(row, value) for row in self.rows if (value := row.scores.get(self.score)) is not None]
        largest = max((row.budget for row, _ in scored), default=1.0)
        return [pair for pair in scored if pair[0].budget == largest]

    @property
    def scored(self) -> list[tuple[TrialRow, float]]:
        """The `comparable` candidates with their scores, best first."""
        return sorted(self.comparable, key=lambda pair: -pair[1] if self.larger else pair[1])

    @property
    def front_rows(self) -> list[TrialRow]:
        """The non-dominated candidates, best first by the score; only the best if there is nothing to trade off."""
        if self.front:
            rows = {row.id: row for row in self.rows}
            return [rows[number] for number in self.front if number in rows]
        front: list[TrialRow] = []
        sign, other_sign = (-1 if larger else 1 for larger in (self.larger, self.other_larger))
        for row, _ in sorted(self.scored, key=lambda pair: (sign * pair[1], other_sign * self.at(pair[0]))):
            if not front or (self.other and other_sign * self.at(row) < other_sign * self.at(front[-1])):
                front.append(row)
        return front

    def at(self, row: TrialRow) -> float:
        """Return a candidate's value on the horizontal axis: the other score or cost, or its number if there is
        none."""
        value = row.costs.get(self.other, row.scores.get(self.other))
        return float(row.id) if value is None else float(value)


def front_section(trials: TrialTable) -> str:
    """Return the HTML section on the front: all candidates by score and cost, and a table of the best ones."""
    front = trials.front_rows
    names = list(dict.fromkeys(name for row in front for name in row.scores))
    costs = list(dict.fromkeys(name for row in front for name in row.costs if name not in names))
    rows = (
        [
            str(row.id), *(_score_text(name, row.scores.get(name)) for name in names),
            *(cost_text(row.costs.get(name)) for name in costs),
            details("show", f"<code>{escape(trials.command(row.id))}</code>"),
        ]
        for row in front[:MAX_FRONT]
    )  # fmt: skip
    more = f"<p>{len(front) - MAX_FRONT} more are on the front.</p>" if len(front) > MAX_FRONT else ""
    plot = _scatter_figure(trials, trials.scored[:MAX_LISTED], {row.id for row in front})
    other = f" and {column_heading(trials.other)}" if trials.other else ""
    note = f"<p>No other candidate is better in {escape(column_heading(trials.score) + other)} than these.</p>"
    listed = table(["trial", *map(column_heading, [*names, *costs]), "train it"], rows)
    return f"{plot}{note}{listed}{more}"


def column_heading(name: str) -> str:
    """Return a column heading: the name of a score or cost and, if its values are shown without unit, the unit."""
    return name.replace("_", " ") if is_fraction(name) else heading(name)


def _score_text(name: str, value: float | None) -> str:
    return "failed" if value is None else format_metric(name, value)


def cost_text(value: float | None) -> str:
    """Format a cost without its unit; `-` if it is unknown."""
    return "-" if value is None else f"{value:,.0f}"


def label_text(label: Any) -> str:
    """Return an outcome label as text."""
    return label if isinstance(label, str) else json.dumps(label)


def trials_section(trials: TrialTable) -> str:
    """Return the HTML table of all candidates, to sort and filter; rows expand to show choices and training command."""
    listed = trials.rows[:MAX_LISTED]
    scores = list(dict.fromkeys(name for row in listed for name in row.scores))
    costs = list(dict.fromkeys(name for row in listed for name in row.costs if name not in scores))

    def cells(row: TrialRow) -> Iterator[object]:
        yield Number(str(row.id), row.id)
        for name in scores:
            score = row.scores.get(name)
            yield Number(_score_text(name, score), score)
        for name in costs:
            yield Number(cost_text(row.costs.get(name)), row.costs.get(name))
        choices = ", ".join(f"{path} = {label_text(label)}" for path, label in row.choices.items())
        error = f"<p>{escape(row.error)}</p>" if row.error else ""
        yield details("show", f"<p>{escape(choices)}</p>{error}<code>{escape(trials.command(row.id))}</code>")

    more = len(trials.rows) - len(listed)
    note = f"<p>{more:,} more are in the run's journal.</p>" if more else ""
    head = ["trial", *map(column_heading, [*scores, *costs]), "choices"]
    return sortable_table(f"trials of {trials.phase}", head, [[*cells(row)] for row in listed]) + note


def _scatter_figure(trials: TrialTable, scored: Sequence[tuple[TrialRow, float]], front: Collection[int]) -> str:
    """Return a scatter plot of score against cost with the front marked; each point is linked to its table row.

    The tooltip of a point shows its numbers and, if there is one, its picture.
    """
    score, width, height = trials.score, 440, 280
    other = trials.other or "trial"
    places = [trials.at(row) for row, _ in scored]
    limit = trials.limit if trials.limit is not None and trials.limit <= 2 * max(places) else None
    x = Axis.linear([*places, *([limit] if limit is not None else [])], 66, width - 26, is_fraction(other))
    y = Axis.linear([value for _, value in scored], height - 44, 14, is_fraction(score))
    elements = [*frame(x, y, column_heading(other))]
    if limit is not None:
        elements.append(f'<path class="limit" d="M{pixel(x.at(limit))},14V{height - 44}"><title>bound</title></path>')
    for (row, value), place in sorted(zip(scored, places, strict=True), key=lambda point: point[0][0].id in front):
        costs = f"\n{other}: {_score_text(other, place) if other in row.scores else cost_text(place)}"
        costs = costs if trials.other else ""
        caption = escape(f"trial {row.id}\n{score}: {format_metric(score, value)}{costs}")
        picture = f' data-picture="{data_url(trials.pictures[row.id])}"' if row.id in trials.pictures else ""
        elements.append(
            f'<circle class="point{" front" if row.id in front else ""}" tabindex="0" role="button" '
            f'aria-label="{caption}" data-trial="{row.id}" data-said="{caption}"{picture} cx="{pixel(x.at(place))}" '
            f'cy="{pixel(y.at(value))}" r="{5 if row.id in front else 4}"/>'
        )
    keys = ['<li class="c1 dot">front</li>', '<li class="c0 dot">trial</li>']
    keys += ['<li class="c1 dashed">bound</li>'] if limit is not None else []
    return figure(f"{score} over {other}", elements, width, height, "chart points", keys, role="group")


@dataclass(frozen=True)
class Importance:
    """Importance of a choice: the fraction of score variance that it explains by itself, with a 90% interval (`low`,
    `high`).

    `best` is the outcome with the best mean score, `mean` that score.
    """

    choice: str
    fraction: float
    low: float
    high: float
    best: str
    mean: float


def choice_importances(trials: Sequence[tuple[Mapping[str, Any], float]], larger: bool) -> list[Importance]:
    """Return the importance of each choice, most important first.

    Returns [] if there are fewer than `MIN_TRIALS` trials, or if all scores are equal. For each choice, trials are
    grouped by its outcome; trials in which the choice is inactive form a group of their own. Importance is the fraction
    of the variance that lies between groups, corrected by the fraction expected for random groups (epsilon squared, the
    main effects of an analysis of variance). Intervals are bootstrap intervals, centred at the estimate. `larger` is
    True if larger scores are better.
    """
    scores = np.array([score for _, score in trials])
    if len(trials) < MIN_TRIALS or not scores.std() > 0:
        return []
    rng = np.random.default_rng(0)
    resampled = rng.integers(0, len(trials), (BOOTSTRAP_SAMPLES, len(trials)))
    importances = []
    for path in sorted({path for choices, _ in trials for path in choices}):
        labels = [label_text(choices[path]) if path in choices else _INACTIVE for choices, _ in trials]
        names, codes = np.unique(labels, return_inverse=True)
        if len(names) < 2:
            continue
        fraction = _explained(codes, scores, len(names))
        estimates = np.array([_explained(codes[rows], scores[rows], len(names)) for rows in resampled])
        low, high = np.quantile(estimates, (0.05, 0.95)) - estimates.mean() + fraction
        means = [scores[codes == code].mean() for code in range(len(names))]
        best = int(np.argmax(means) if larger else np.argmin(means))
        clipped = [float(min(1.0, max(0.0, value))) for value in (fraction, low, high)]
        importances.append(Importance(path, clipped[0], clipped[1], clipped[2], str(names[best]), float(means[best])))
    return sorted(importances, key=lambda importance: -importance.fraction)


def _explained(codes: NDArray[np.int64], scores: NDArray[np.float64], groups: int) -> float:
    """Return the fraction of variance that lies between groups, corrected by that expected for random groups."""
    counts = np.bincount(codes, minlength=groups)
    occupied = int((counts > 0).sum())
    total = float(((scores - scores.mean()) ** 2).sum())
    if total <= 0 or len(scores) <= occupied:
        return 0.0
    means = np.bincount(codes, scores, groups) / np.maximum(counts, 1)
    within = float(((scores - means[codes]) ** 2).sum())
    return ((total - within) - (occupied - 1) * within / (len(scores) - occupied)) / total


def importance_section(trials: TrialTable) -> str:
    """Return the HTML section on the importance of choices for the score of candidates, or on why importance cannot be
    estimated."""
    scored, score = trials.scored, trials.score
    count, values = len(scored), [value for _, value in scored]
    if count < MIN_TRIALS:
        return f"<p>Not known: {count} trials have a score, and at least {MIN_TRIALS} are needed to estimate it.</p>"
    if min(values) == max(values):
        same = escape(f"All trials have the same {score} ({format_metric(score, values[0])})")
        return f"<p>{same}, so importance cannot be estimated.</p>"
    importances = choice_importances([(row.choices, value) for row, value in scored], trials.larger)
    best = scored[0][0].choices
    if not importances:
        return "<p>Every choice has the same outcome in all trials, so importance cannot be estimated.</p>"
    rows = [
        [each.choice, _bar(each), f"{each.fraction:.0%}", f"{each.low:.0%} to {each.high:.0%}", each.best,
         format_metric(score, each.mean), label_text(best[each.choice]) if each.choice in best else _INACTIVE]
        for each in importances
    ]  # fmt: skip
    name = escape(score.replace("_", " "))
    head = ["choice", "", "share", "interval", "best on average", f"mean {name}", "best trial has"]
    shown = table(head, rows[:MAX_IMPORTANCES], "figures shares-of")
    rest = details(f"{len(rows) - MAX_IMPORTANCES} more", table(head, rows[MAX_IMPORTANCES:], "figures shares-of"))
    return (
        f"<p>How much of the variance of {name} over {count:,} trials each choice explains by itself, beyond what "
        "chance would explain, with a 90% interval (bootstrap). Shares overlap if the search sampled good choices "
        "together, so they can add up to more than 100%; random trials give unbiased shares.</p>"
        f"{shown}{rest if len(rows) > MAX_IMPORTANCES else ''}"
    )


def _bar(importance: Importance) -> Html:
    fraction, low, high = (round(120 * value, 1) for value in (importance.fraction, importance.low, importance.high))
    return Html(
        '<svg class="bar" viewBox="0 0 120 12" width="120" height="12" role="img" '
        f'aria-label="{importance.fraction:.0%}"><rect class="part" y="2" width="{fraction}" height="8"/>'
        f'<path class="range" d="M{low},6H{high}"/></svg>'
    )


def front_plot(
    trials: Sequence[tuple[Candidate, Scores]], front: Collection[int], objectives: Sequence[Objective], title: str
) -> str:
    """Return an SVG scatter plot of trials; `front` holds the ids of the trials on the Pareto front.

    The vertical axis is the first objective, the horizontal axis the second. If there are exactly two, the
    boundary of the dominated region is drawn as well. Without trials, the plot has no axes.
    """
    return svg_file(
        640, 420, title, (76, 26), _FRONT_STYLE, _front_elements(trials, front, objectives) if trials else ()
    )


def _front_elements(
    trials: Sequence[tuple[Candidate, Scores]], front: Collection[int], objectives: Sequence[Objective]
) -> Iterator[str]:
    up, right = objectives[:2]
    x = Axis.linear([scores[right.name] for _, scores in trials], 76, 620, is_fraction(right.name))
    y = Axis.linear([scores[up.name] for _, scores in trials], 368, 44, is_fraction(up.name))
    captions = [f"{heading(axis.name)} ({'more' if axis.maximize else 'less'} is better)" for axis in (right, up)]
    yield from frame(x, y, *captions)
    best = sorted(
        (x.at(scores[right.name]), y.at(scores[up.name])) for candidate, scores in trials if candidate.id in front
    )
    if len(objectives) == 2 and best:
        (begin_x, begin_y), *others = best[::-1] if right.maximize else best
        stairs = "".join(f"H{pixel(a)}V{pixel(b)}" for a, b in others)
        yield f'<path class="edge" d="M{pixel(begin_x)},{pixel(begin_y)}{stairs}"/>'
    for group, radius in (("trial", 2.6), ("front", 4.2)):
        for candidate, scores in trials:
            if (candidate.id in front) == (group == "front"):
                named = (f"{heading(each.name)} {format_value(each.name, scores[each.name])}" for each in objectives)
                tip = escape(f"trial {candidate.id}: {', '.join(named)}")
                centre = f'cx="{pixel(x.at(scores[right.name]))}" cy="{pixel(y.at(scores[up.name]))}"'
                yield f'<circle class="{group}" {centre} r="{radius}"><title>{tip}</title></circle>'
