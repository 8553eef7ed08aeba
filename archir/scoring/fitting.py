"""Scores fitted to evaluated architectures by ridge regression: linear, or also with pairs of choices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import fail
from archir.spaces.architecture import Architecture
from archir.spaces.scores import AdditiveScores, Term
from archir.spaces.space import Space
from archir.utils.ranks import spearman

MIN_ARCHITECTURES = 8
"""Minimum number of evaluated architectures that a model can be fitted to."""
FOLDS = 5
"""Number of folds in cross-validation."""
RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
"""Ridge penalties to try; the one with the best cross-validated rank correlation is used."""
MAX_FEATURES = 4_000
"""Maximum number of features of a model; features are outcomes and pairs of outcomes."""
DIGITS = 9
"""Number of significant digits that scores are rounded to."""

Key = tuple[tuple[str, ...], tuple[int, ...]]
Floats = NDArray[np.float64]


def fit_scores(
    space: Space, architectures: Sequence[Architecture], scores: Sequence[float], pairs: bool = False
) -> AdditiveScores:
    """Fit a ridge regression on outcomes and, with `pairs`, on pairs of outcomes; return it as scores.

    The provenance record `made` of the result contains the rank correlation between the given scores and the
    predictions for held-out folds. Raises ArchError (A3323) if there are too few architectures or too many features,
    or if a score is not finite.
    """
    check_finite(architectures, scores)
    if len(scores) < MIN_ARCHITECTURES:
        raise fail("A3323", f"scores must be fitted to at least {MIN_ARCHITECTURES} architectures, not {len(scores)}")
    keys = _feature_keys(architectures, pairs)
    if len(keys) > MAX_FEATURES:
        hint = "fit single outcomes only: leave out `--pairs`" if pairs else None
        kind = "outcomes and pairs of them" if pairs else "outcomes"
        raise fail("A3323", f"a score model can have at most {MAX_FEATURES:,} {kind}, not {len(keys):,}", None, hint)
    x, y = _features(architectures, keys), np.array(scores, np.float64)
    ranked = [(_cross_validated_correlation(x, y, ridge), ridge) for ridge in RIDGES]
    correlation, ridge = max(ranked, key=lambda pair: (-2.0 if pair[0] is None else pair[0], pair[1]))
    weights, constant = _solve_ridge(x, y, ridge)
    values: dict[tuple[str, ...], dict[tuple[int, ...], Fraction]] = {}
    for (paths, outcomes), weight in zip(keys, weights.tolist(), strict=True):
        values.setdefault(paths, {})[outcomes] = _rounded(weight)
    provenance: dict[str, Any] = {
        "by": "pairwise model" if pairs else "linear model",
        "fitted_to": len(scores),
        "rank_correlation": correlation,
        "folds": FOLDS,
        "ridge": ridge,
    }
    return AdditiveScores(space.name, tuple([Term(*term) for term in values.items()]), _rounded(constant), provenance)


def check_finite(architectures: Iterable[Architecture], scores: Iterable[float]) -> None:
    """Raise ArchError (A3323) for the first architecture whose score is not finite."""
    for architecture, score in zip(architectures, scores, strict=True):
        if not isfinite(score):
            raise fail(
                "A3323", f"the score of {architecture!r} is {float(score)}", None, "scores must be finite numbers"
            )


def _feature_keys(architectures: Sequence[Architecture], pairs: bool) -> list[Key]:
    """Return the keys of the features: all outcomes that occur and, with `pairs`, all pairs of outcomes.

    They are in the order of the choices.
    """
    keys: dict[Key, None] = {}
    for architecture in architectures:
        outcomes = architecture.outcomes
        keys |= {((path,), (outcome,)): None for path, outcome in outcomes.items()}
        if pairs:
            outcome_pairs = combinations(outcomes.items(), 2)
            keys |= {((first_path, second_path), (i, j)): None for (first_path, i), (second_path, j) in outcome_pairs}
    return sorted(keys, key=lambda key: len(key[0]))


def _features(architectures: Sequence[Architecture], keys: Sequence[Key]) -> Floats:
    """Return the design matrix [architectures, keys], with a 1 where an architecture has all outcomes of a key."""
    x = np.zeros((len(architectures), len(keys)))
    for row, architecture in enumerate(architectures):
        outcomes = architecture.outcomes
        x[row] = [all(outcomes.get(p) == o for p, o in zip(*key, strict=True)) for key in keys]
    return x


def _solve_ridge(x: Floats, y: Floats, ridge: float) -> tuple[Floats, float]:
    means, mean = x.mean(0), y.mean()
    centred, rows, columns = x - means, *x.shape
    if rows > columns:
        weights: Floats = np.linalg.solve(centred.T @ centred + ridge * np.eye(columns), centred.T @ (y - mean))
    else:  # the dual system has the same solution, and is smaller
        weights = centred.T @ np.linalg.solve(centred @ centred.T + ridge * np.eye(rows), y - mean)
    return weights, float(mean - means @ weights)


def _cross_validated_correlation(x: Floats, y: Floats, ridge: float) -> float | None:
    """Return the rank correlation of scores with predictions by models fitted to the other folds.

    None if all scores, or all predictions, are equal.
    """
    predicted = np.zeros(len(y))
    for fold in range(FOLDS):
        held_out = np.arange(len(y)) % FOLDS == fold
        weights, constant = _solve_ridge(x[~held_out], y[~held_out], ridge)
        predicted[held_out] = x[held_out] @ weights + constant
    return spearman(y, predicted)


def _rounded(number: float) -> Fraction:
    return Fraction(f"{number:.{DIGITS}g}")
