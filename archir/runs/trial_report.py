"""Parts of a run's report on its trials: scatter plots, importance of choices, and a sortable table."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.pages.charts import Axis, figure, frame, pixel, svg_file
from archir.pages.page import Html, Number, data_url, details, sort_button, table
from archir.search.candidate import Candidate, Scores
from archir.search.fronts import format_metric, format_value, heading, is_fraction
from archir.search.objectives import Objective

MAX_LISTED = 2_000
"""Maximum number of candidates listed per phase; the first ones are listed."""
MIN_TRIALS = 20
"""Minimum number of trials for estimating importance."""
BOOTSTRAP_SAMPLES = 200
"""Number of bootstrap samples."""
MAX_IMPORTANCES = 30
"""Maximum number of choices whose importance is listed, most important first."""
_INACTIVE = "(inactive)"
"""Label that stands for the outcome of a choice in trials in which it is inactive."""
_FRONT_STYLE = (
    ".trial{fill:var(--soft);opacity:.35}.front{fill:var(--mark)}"
    ".edge{fill:none;stroke:var(--mark);stroke-width:1.5;stroke-linejoin:round}"
)
"""CSS for the points and the boundary of the front."""


@dataclass(frozen=True)
class TrialRow:
    """Candidate of a phase: id, scores (None for those that it lacks because it failed), costs, and choices."""

    id: int
    scores: Mapping[str, float | None]
    costs: Mapping[str, float]
    choices: Mapping[str, Any]
    error: str | None = None


@dataclass(frozen=True)
class TrialTable:
    """Candidates of a phase in the order of proposal.

    `command(id)` returns the shell command that trains a candidate. Candidates are ranked by `score`; `larger`
    tells whether larger values are better. `pictures` maps ids of some candidates to SVG documents.
    """

    phase: str
    rows: Sequence[TrialRow]
    command: Callable[[int], str]
    score: str = ""
    larger: bool = True
    pictures: Mapping[int, str] = field(default_factory=dict)

    @property
    def scored(self) -> list[tuple[TrialRow, float]]:
        """(candidate, score) pairs for all candidates that have the score, best first."""
        scored = [(row, value) for row in self.rows if (value := row.scores.get(self.score)) is not None]
        return sorted(scored, key=lambda pair: -pair[1] if self.larger else pair[1])


def trials_section(trials: TrialTable) -> str:
    """Return the HTML section: scatter plot, importance of choices, and table."""
    scored = trials.scored
    if not scored:
        return _trials_table(trials)
    importances = choice_importances([(row.choices, value) for row, value in scored], trials.larger)
    section = _importance_section(importances, [value for _, value in scored], trials.score)
    plot = _scatter_figure(trials, scored[:MAX_LISTED])
    return f"{plot}<h3>Which choices mattered</h3>{section}<h3>All trials</h3>{_trials_table(trials)}"


def label_text(label: Any) -> str:
    """Return an outcome label as text."""
    return label if isinstance(label, str) else json.dumps(label)


def _trials_table(trials: TrialTable) -> str:
    """Return an HTML table that sorts by a column when it is clicked; rows expand to show choices and training
    command."""
    listed = trials.rows[:MAX_LISTED]
    scores = list(dict.fromkeys(name for row in listed for name in row.scores))
    costs = list(dict.fromkeys(name for row in listed for name in row.costs))

    def cells(row: TrialRow) -> Iterator[object]:
        yield Number(str(row.id), row.id)
        for name in scores:
            score = row.scores.get(name)
            yield Number("failed" if score is None else format_metric(name, score), score)
        for name in costs:
            yield Number(f"{row.costs[name]:,.0f}" if name in row.costs else "-", row.costs.get(name))
        choices = ", ".join(f"{path} = {label_text(label)}" for path, label in row.choices.items())
        error = f"<p>{escape(row.error)}</p>" if row.error else ""
        yield details("show", f"<p>{escape(choices)}</p>{error}<code>{escape(trials.command(row.id))}</code>")

    more = len(trials.rows) - len(listed)
    note = f"<p>{more:,} more are in the run's journal.</p>" if more else ""
    head = [*map(sort_button, ["trial", *scores, *costs]), "choices"]
    return table(head, ([*cells(row)] for row in listed), "figures sortable") + note


def _scatter_figure(trials: TrialTable, scored: Sequence[tuple[TrialRow, float]]) -> str:
    """Return a scatter plot, score against cost; each point is linked to its table row.

    The tooltip of a point shows its numbers and, if there is one, its picture.
    """
    score, width, height = trials.score, 440, 280
    cost = next((name for name in ("macs", "params") if name in scored[0][0].costs), "trial")
    places = [row.costs[cost] if cost != "trial" else float(row.id) for row, _ in scored]
    x = Axis.linear(places, 66, width - 26)
    y = Axis.linear([value for _, value in scored], height - 44, 14, is_fraction(score))
    elements = [*frame(x, y, cost)]
    for (row, value), place in zip(scored, places, strict=True):
        costs = f"\n{cost}: {place:,.0f}" if cost != "trial" else ""
        caption = escape(f"trial {row.id}\n{score}: {format_metric(score, value)}{costs}")
        picture = f' data-picture="{data_url(trials.pictures[row.id])}"' if row.id in trials.pictures else ""
        elements.append(
            f'<circle class="point" tabindex="0" role="button" aria-label="{caption}" data-trial="{row.id}" '
            f'data-said="{caption}"{picture} cx="{pixel(x.at(place))}" cy="{pixel(y.at(value))}" r="4"/>'
        )
    return figure(f"{score} over {cost}", elements, width, height, "chart points", role="group")


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


def choice_importances(
    trials: Sequence[tuple[Mapping[str, Any], float]], larger: bool, seed: int = 0
) -> list[Importance]:
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
    rng = np.random.default_rng(seed)
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


def _importance_section(importances: Sequence[Importance], values: Sequence[float], score: str) -> str:
    """Return the HTML section on the importance of choices, or on why importance cannot be estimated.

    `values` are the scores of all trials.
    """
    trials = len(values)
    if trials < MIN_TRIALS:
        return f"<p>Importance is estimated from {MIN_TRIALS} scored trials or more, and there are {trials}.</p>"
    if min(values) == max(values):
        same = escape(f"All trials have the same {score} ({format_metric(score, values[0])})")
        return f"<p>{same}, so importance cannot be estimated.</p>"
    if not importances:
        return "<p>Every choice has the same outcome in all trials, so importance cannot be estimated.</p>"
    remainder = max(0.0, 1 - sum(importance.fraction for importance in importances))
    rows = (
        [each.choice, _bar(each), f"{each.fraction:.0%}", f"{each.low:.0%} to {each.high:.0%}", each.best,
         format_metric(score, each.mean)]
        for each in importances[:MAX_IMPORTANCES]
    )  # fmt: skip
    more = f" {len(importances) - MAX_IMPORTANCES} more explain less." if len(importances) > MAX_IMPORTANCES else ""
    return (
        f"<p>How much of the variance of {escape(score)} over {trials:,} trials each choice explains by itself: the "
        "variance between the trials of its outcomes, less what chance would give. The interval is a 90% bootstrap "
        f"confidence interval. The remainder, {remainder:.0%}, is interaction effects and noise. A search that "
        "samples good choices together makes their importances overlap; random trials give unbiased values."
        f"{more}</p>{table(['choice', '', 'share', 'interval', 'best', 'its mean'], rows, 'figures shares-of')}"
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
