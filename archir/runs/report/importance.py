"""Importance of choices: the fraction of the variance of scores that each choice explains."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_TRIALS = 20
"""Minimum number of trials for estimating importance."""
BOOTSTRAP_SAMPLES = 200
"""Number of bootstrap samples."""
MAX_LISTED = 30
"""Maximum number of choices listed, most important first."""
_NONE = "(inactive)"
"""Label that stands for the outcome of a choice in trials in which it is inactive."""


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
        labels = [_text(choices[path]) if path in choices else _NONE for choices, _ in trials]
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


def importance_section(importances: Sequence[Importance], values: Sequence[float], score: str, text: Any) -> str:
    """Return the HTML section on the importance of choices, or on why importance cannot be estimated.

    `values` are the scores of all trials; `text(score, value)` formats a score.
    """
    trials = len(values)
    if trials < MIN_TRIALS:
        return f"<p>Importance is estimated from {MIN_TRIALS} scored trials or more, and there are {trials}.</p>"
    if min(values) == max(values):
        same = f"All trials have the same {escape(score)} ({escape(text(score, values[0]))})"
        return f"<p>{same}, so importance cannot be estimated.</p>"
    if not importances:
        return "<p>Every choice has the same outcome in all trials, so importance cannot be estimated.</p>"
    remainder = max(0.0, 1 - sum(importance.fraction for importance in importances))
    rows = "".join(
        f"<tr><td>{escape(importance.choice)}</td><td>{_bar(importance)}</td><td>{100 * importance.fraction:.0f}%</td>"
        f"<td>{100 * importance.low:.0f}% to {100 * importance.high:.0f}%</td><td>{escape(importance.best)}</td>"
        f"<td>{escape(text(score, importance.mean))}</td></tr>"
        for importance in importances[:MAX_LISTED]
    )
    more = f" {len(importances) - MAX_LISTED} more explain less." if len(importances) > MAX_LISTED else ""
    return (
        f"<p>How much of the variance of {escape(score)} over {trials:,} trials each choice explains by itself: the "
        "variance between the trials of its outcomes, less what chance would give. The interval is a 90% bootstrap "
        f"confidence interval. The remainder, {100 * remainder:.0f}%, is interaction effects and noise. A search that "
        "samples good choices together makes their importances overlap; random trials give unbiased values."
        f"{more}</p>"
        '<div class="scroll" tabindex="0"><table class="figures shares-of"><thead><tr><th>choice</th><th></th>'
        f"<th>share</th><th>interval</th><th>best</th><th>its mean</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _bar(importance: Importance) -> str:
    """Return an SVG bar for the importance, with its interval as a line."""
    fraction, low, high = (round(120 * value, 1) for value in (importance.fraction, importance.low, importance.high))
    return (
        '<svg class="bar" viewBox="0 0 120 12" width="120" height="12" role="img" '
        f'aria-label="{100 * importance.fraction:.0f}%">'
        f'<rect class="part" y="2" width="{fraction}" height="8"/><path class="range" d="M{low},6H{high}"/></svg>'
    )


def _text(label: Any) -> str:
    """Return an outcome label as text."""
    return label if isinstance(label, str) else json.dumps(label)
