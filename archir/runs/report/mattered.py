"""Which choices mattered: how much of the variance of scores each of them explains, over what was tried."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 20
"""Trials below which nothing is said."""
RESAMPLED = 200
MOST = 30
"""Choices that are listed: of more, those that explain most."""
_NONE = "(not there)"


@dataclass(frozen=True)
class Share:
    """A choice, the part of the variance that it explains by itself, an interval for that (5% to 95%), and the outcome
    whose trials scored best, with their mean."""

    choice: str
    part: float
    low: float
    high: float
    best: str
    mean: float


def shares(tried: Sequence[tuple[Mapping[str, Any], float]], larger: bool, seed: int = 0) -> list[Share]:
    """The shares of choices, the largest first; none of fewer than `LEAST` trials, or if all scored alike.

    Trials are grouped by the outcome of one choice, and the part of the variance between groups is taken, less what
    groups of chance would have (epsilon squared, the main effects of an analysis of variance). Intervals are those
    of trials drawn with repetition, about their mean. A trial in which a choice is not there is a group of its own.
    """
    scores = np.array([score for _, score in tried])
    if len(tried) < LEAST or not scores.std() > 0:
        return []
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(tried), (RESAMPLED, len(tried)))
    found = []
    for path in sorted({path for choices, _ in tried for path in choices}):
        labels = [_text(choices[path]) if path in choices else _NONE for choices, _ in tried]
        names, codes = np.unique(labels, return_inverse=True)
        if len(names) < 2:
            continue
        part = _explained(codes, scores, len(names))
        again = np.array([_explained(codes[rows], scores[rows], len(names)) for rows in drawn])
        low, high = np.quantile(again, (0.05, 0.95)) - again.mean() + part
        means = [scores[codes == code].mean() for code in range(len(names))]
        best = int(np.argmax(means) if larger else np.argmin(means))
        ends = [float(min(1.0, max(0.0, value))) for value in (part, low, high)]
        found.append(Share(path, ends[0], ends[1], ends[2], str(names[best]), float(means[best])))
    return sorted(found, key=lambda one: -one.part)


def _explained(codes: NDArray[np.int64], scores: NDArray[np.float64], groups: int) -> float:
    """The part of the variance between groups, less that of groups of chance."""
    counts = np.bincount(codes, minlength=groups)
    there = int((counts > 0).sum())
    total = float(((scores - scores.mean()) ** 2).sum())
    if total <= 0 or len(scores) <= there:
        return 0.0
    means = np.bincount(codes, scores, groups) / np.maximum(counts, 1)
    within = float(((scores - means[codes]) ** 2).sum())
    return ((total - within) - (there - 1) * within / (len(scores) - there)) / total


def section(found: Sequence[Share], values: Sequence[float], score: str, text: Any) -> str:
    """The HTML of shares, or why there are none; `values` are the scores of all trials, and `text` writes a score."""
    trials = len(values)
    if trials < LEAST:
        return f"<p>Importance is estimated from {LEAST} scored trials or more, and there are {trials}.</p>"
    if min(values) == max(values):
        same = f"All trials have the same {escape(score)} ({escape(text(score, values[0]))})"
        return f"<p>{same}, so importance cannot be estimated.</p>"
    if not found:
        return "<p>Every choice has the same outcome in all trials, so importance cannot be estimated.</p>"
    left = max(0.0, 1 - sum(one.part for one in found))
    rows = "".join(
        f"<tr><td>{escape(one.choice)}</td><td>{_bar(one)}</td><td>{100 * one.part:.0f}%</td>"
        f"<td>{100 * one.low:.0f}% to {100 * one.high:.0f}%</td><td>{escape(one.best)}</td>"
        f"<td>{escape(text(score, one.mean))}</td></tr>"
        for one in found[:MOST]
    )
    more = f" {len(found) - MOST} more explain less." if len(found) > MOST else ""
    return (
        f"<p>How much of the variance of {escape(score)} over {trials:,} trials each choice explains by itself: the "
        "variance between the trials of its outcomes, less what chance would give. The interval is a 90% bootstrap "
        f"confidence interval. The remainder, {100 * left:.0f}%, is interaction effects and noise. A search that "
        "samples good choices together makes their importances overlap; random trials give unbiased values."
        f"{more}</p>"
        '<div class="scroll" tabindex="0"><table class="figures shares-of"><thead><tr><th>choice</th><th></th>'
        f"<th>share</th><th>interval</th><th>best</th><th>its mean</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _bar(one: Share) -> str:
    """A bar with its interval as a line."""
    part, low, high = (round(120 * value, 1) for value in (one.part, one.low, one.high))
    return (
        f'<svg class="bar" viewBox="0 0 120 12" width="120" height="12" role="img" aria-label="{100 * one.part:.0f}%">'
        f'<rect class="part" y="2" width="{part}" height="8"/><path class="range" d="M{low},6H{high}"/></svg>'
    )


def _text(label: Any) -> str:
    return label if isinstance(label, str) else json.dumps(label)
