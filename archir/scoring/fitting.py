"""Scores that are fitted to architectures that were evaluated: linear, or with a term for each pair of choices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.costs.latencies.fill import spearman
from archir.diagnostics.errors import fail
from archir.spaces.architecture import Architecture
from archir.spaces.scores import Scores, Term
from archir.spaces.space import Space

LEAST = 8
"""Architectures that a model is fitted to, at least."""
FOLDS = 5
"""Parts of the architectures, of which each is predicted from the others."""
RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
"""Penalties of the squares of scores that are tried; the one counts that predicts best."""
MOST = 4_000
"""Outcomes, or pairs of them, that a model tells apart."""
DIGITS = 9

Key = tuple[tuple[str, ...], tuple[int, ...]]
Floats = NDArray[np.float64]


def fitted(space: Space, architectures: Sequence[Architecture], scores: Sequence[float], pairs: bool = False) -> Scores:
    """A ridge regression on what is chosen, or with `pairs` on pairs of it, too; `made` has the rank correlation of
    scores and predictions of folds that were left out. Raises ArchError (A3323) if there are too few or too many."""
    if len(scores) < LEAST:
        raise fail("A3323", f"scores are fitted to {LEAST} architectures at least, not {len(scores)}")
    keys = _keys(architectures, pairs)
    if len(keys) > MOST:
        hint = "leave `--pairs` out" if pairs else None
        raise fail("A3323", f"{len(keys):,} outcomes are told apart, and {MOST:,} at most can be fitted", None, hint)
    x, y = _features(architectures, keys), np.array(scores, np.float64)
    ranked = [(_correlation(x, y, ridge), ridge) for ridge in RIDGES]
    correlation, ridge = max(ranked, key=lambda one: (-2.0 if one[0] is None else one[0], one[1]))
    weights, constant = _solved(x, y, ridge)
    found: dict[tuple[str, ...], dict[tuple[int, ...], Fraction]] = {}
    for (paths, outcomes), weight in zip(keys, weights.tolist(), strict=True):
        found.setdefault(paths, {})[outcomes] = _short(weight)
    made: dict[str, Any] = {
        "by": "pairwise model" if pairs else "linear model",
        "fitted_to": len(scores),
        "rank_correlation": correlation,
        "folds": FOLDS,
        "ridge": ridge,
    }
    return Scores(space.name, tuple([Term(*one) for one in found.items()]), _short(constant), made)


def _keys(architectures: Sequence[Architecture], pairs: bool) -> list[Key]:
    """The outcomes that are seen, and with `pairs` the pairs of them, in the order of the choices."""
    found: dict[Key, None] = {}
    for architecture in architectures:
        outcomes = architecture.outcomes
        found |= {((path,), (outcome,)): None for path, outcome in outcomes.items()}
        if pairs:
            both = combinations(outcomes.items(), 2)
            found |= {((one, other), (i, j)): None for (one, i), (other, j) in both}
    return sorted(found, key=lambda key: len(key[0]))


def _features(architectures: Sequence[Architecture], keys: Sequence[Key]) -> Floats:
    """A one for each outcome, and pair, that an architecture has."""
    x = np.zeros((len(architectures), len(keys)))
    for row, architecture in enumerate(architectures):
        outcomes = architecture.outcomes
        x[row] = [all(outcomes.get(p) == o for p, o in zip(*key, strict=True)) for key in keys]
    return x


def _solved(x: Floats, y: Floats, ridge: float) -> tuple[Floats, float]:
    """Weights and constant of the least squares, with a penalty of the weights' squares."""
    means, mean = x.mean(0), y.mean()
    centred, rows, columns = x - means, *x.shape
    if rows > columns:
        weights: Floats = np.linalg.solve(centred.T @ centred + ridge * np.eye(columns), centred.T @ (y - mean))
    else:  # the same numbers, from the smaller of both systems
        weights = centred.T @ np.linalg.solve(centred @ centred.T + ridge * np.eye(rows), y - mean)
    return weights, float(mean - means @ weights)


def _correlation(x: Floats, y: Floats, ridge: float) -> float | None:
    """The rank correlation of scores and predictions from the other folds; None if all scores are the same."""
    predicted = np.zeros(len(y))
    for fold in range(FOLDS):
        inside = np.arange(len(y)) % FOLDS == fold
        weights, constant = _solved(x[~inside], y[~inside], ridge)
        predicted[inside] = x[inside] @ weights + constant
    return spearman(y, predicted)


def _short(number: float) -> Fraction:
    return Fraction(f"{number:.{DIGITS}g}")
