"""Verdicts on a search: whether it decided, learned, used its budget, and beat random architectures.

A verdict is a conclusion from recorded numbers, in words, with what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import median
from typing import Literal

from archir.utils.metrics import format_metric, is_fraction

State = Literal["failed", "at chance", "undecided", "worked", "room left", "not judged"]
"""Conclusion about a search, worst first."""
STATES: tuple[State, ...] = ("failed", "at chance", "undecided", "worked", "room left", "not judged")
MIN_DECIDED, MIN_LEANING = 0.5, 0.1
"""Normalised strength of the strongest alternative (0: equal shares, 1: certain) from which a choice counts as
decided, and below which it counts as undecided."""
MIN_BUDGET_USE = 0.8
"""Fraction of an upper bound that the best architecture must cost for the bound to count as reached."""
CONFIDENCE = 1.96
"""Two-sided 95% quantile of the normal distribution."""


@dataclass(frozen=True)
class Verdict:
    """Conclusion about a phase, in words, with the numbers behind it.

    `change` are settings of the phase that are likely to help, as keys of `--set` after the name of the phase.
    """

    state: State
    phase: str
    claim: str
    evidence: str
    change: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class BoundUse:
    """Upper bound on a cost, as it was stated, and the cost of the selected architecture."""

    text: str
    limit: float
    used: float


def overall(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the verdict with the worst state; None if there are no verdicts."""
    return min(verdicts, key=lambda verdict: STATES.index(verdict.state), default=None)


def equal_shares(probabilities: Sequence[float]) -> float:
    """Return the probability of the strongest alternative as a multiple of an equal share."""
    return max(probabilities) * len(probabilities)


def decidedness(probabilities: Sequence[float]) -> float:
    """Return 0 if all alternatives have equal shares, 1 if one of them is certain; linear in its probability."""
    return (equal_shares(probabilities) - 1) / max(1, len(probabilities) - 1)


def probability_verdict(phase: str, choices: Mapping[str, Sequence[float]], epochs: int) -> Verdict | None:
    """Judge whether architecture parameters decided: `choices` are the last probabilities, by choice.

    Returns None if no choice has several alternatives.
    """
    open_choices = [p for p in choices.values() if len(p) > 1]
    if not open_choices:
        return None
    strength = median(map(decidedness, open_choices))
    ratios = [equal_shares(p) for p in open_choices]
    shares = f"the strongest alternative has {median(ratios):.2f} times an equal share"
    if len(ratios) > 1:
        shares += f" (median of {len(ratios)} choices; at most {max(ratios):.2f} times)"
    if strength >= MIN_DECIDED:
        return Verdict("worked", phase, "decided", shares)
    if strength < MIN_LEANING:
        shares += ". The search hardly preferred any alternative"
    claim = "undecided" if strength < MIN_LEANING else "partly decided"
    return Verdict("undecided", phase, claim, shares, {"training.epochs": 2 * epochs})


def chance_verdict(
    phase: str, subject: str, accuracy: float, samples: int, classes: int, epochs: int | None = None
) -> Verdict | None:
    """Judge whether an accuracy in [0, 1] on `samples` samples differs from guessing one of `classes` classes.

    `subject` names what was measured. Returns None if the accuracy is above chance by more than its 95% sampling error.
    """
    chance = 1 / classes
    if accuracy > chance + CONFIDENCE * sqrt(chance * (1 - chance) / max(1, samples)):
        return None
    evidence = f"accuracy {accuracy:.2%}, where guessing one of {classes} classes gives {chance:.1%}"
    change = {} if epochs is None else {"training.epochs": 2 * epochs}
    return Verdict("at chance", phase, f"{subject} is at chance", evidence, change)


def bound_verdict(phase: str, uses: Sequence[BoundUse], searches_near: bool = False) -> Verdict | None:
    """Judge whether the selected architecture keeps all bounds and comes close to one; None if it does.

    `searches_near` tells whether the search samples architectures near its bounds (`min_budget_fraction`).
    """
    for use in uses:
        if use.used > use.limit:
            evidence = f"the architecture costs {use.used / use.limit:.0%} of `{use.text}`"
            return Verdict("failed", phase, "the bound was not kept", evidence)
    closest = max(uses, key=lambda use: use.used / use.limit if use.limit else 1.0, default=None)
    if closest is None or not closest.limit or closest.used >= MIN_BUDGET_USE * closest.limit:
        return None
    evidence = f"the best architecture uses {closest.used / closest.limit:.0%} of `{closest.text}`"
    change = {} if searches_near else {"options.min_budget_fraction": 0.9}
    return Verdict("room left", phase, "the bound was kept, with room left", evidence, change)


def trials_verdict(
    phase: str, score: str, larger: bool, scores: Sequence[float], initial: int, learns: bool,
    samples: int = 0, exhausted: bool = False, change: Mapping[str, object] | None = None,
) -> Verdict | None:  # fmt: skip
    """Judge a phase that tries candidates, by the scores of its candidates in the order of proposal.

    The first `initial` candidates were proposed before any score was known. If the strategy `learns`, later ones should
    be better. `samples` is the number of samples on which a score was measured; with it, a gain within the sampling
    error of an accuracy counts as undecided. `exhausted` means that there were no more architectures to try. Returns
    None without scores.
    """
    if not scores:
        return None
    pick = max if larger else min
    first, best = pick(scores[:initial], default=None), pick(scores)
    count, name = f"{len(scores):,}", score.replace("_", " ")
    if exhausted:
        evidence = f"all {count} that it could propose; best {name} {format_metric(score, best)}"
        if first is not None:
            evidence += f", {format_metric(score, first)} for the best of the first {initial:,} (random)"
        return Verdict("worked", phase, "all architectures were tried", evidence)
    if learns and first is None:
        evidence = "no random architecture was tried with the full training budget, so there is none to compare with"
        return Verdict("not judged", phase, f"best of {count}", evidence)
    if not learns or first is None or len(scores) <= initial:
        evidence = f"{count} architectures were proposed without using scores, so there is no search to judge"
        return Verdict("not judged", phase, f"best of {count}", evidence)
    gained = (
        f"{name} {format_metric(score, first)} for the best of the first {initial:,} (random), "
        f"{format_metric(score, best)} after {count} trials"
    )
    more = change or {}
    if not (best > first if larger else best < first):
        return Verdict("undecided", phase, "no gain over random architectures", gained, more)
    error = sampling_error(best, samples) if is_fraction(score) else None
    if error is not None and abs(best - first) < error:
        evidence = f"{gained}; a difference below {100 * error:.1f} points may be chance"
        return Verdict("undecided", phase, "undecided", evidence, more)
    return Verdict("worked", phase, "better than random architectures", gained)


def sampling_error(accuracy: float, samples: int) -> float | None:
    """Return the standard error of an accuracy that was measured on `samples` samples.

    Returns None without samples, and for a number outside [0, 1], which is no accuracy.
    """
    return sqrt(accuracy * (1 - accuracy) / samples) if samples and 0 <= accuracy <= 1 else None


def accuracy_interval(accuracy: float, samples: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of an accuracy in [0, 1] that was measured on `samples` samples."""
    z = CONFIDENCE**2 / samples
    centre, half = accuracy + z / 2, CONFIDENCE * sqrt(accuracy * (1 - accuracy) / samples + z / (4 * samples))
    return max(0.0, (centre - half) / (1 + z)), min(1.0, (centre + half) / (1 + z))
