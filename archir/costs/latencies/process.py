"""A Gaussian process whose kernel is a mixture, averaged over what the mixture may be.

The kernel is a sum of a constant, of linear kernels over blocks of features, each with a share, and of noise. A few
measurements do not say what the shares are: many sets of shares are drawn, and each counts as much as the
measurements are probable under it (Rasmussen and Williams 2006, sections 2.2 and 5.4.1, the scale of the whole
integrated out). What the others say of each measurement (section 5.4.2) tells how wrong predictions are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
DRAWS = 64
"""Sets of shares."""
MOST_WEIGHED = 300
"""Measurements by which sets of shares are weighed, where there are more."""
_PRIOR = 0.2
"""Observations of variance 1 that the prior of the scale is worth."""
_SLIGHT = 1e-3
"""Sets of shares that count less than so much of the best are left out."""


@dataclass(frozen=True)
class Fitted:
    """What n measurements leave of a process, in their unit."""

    weights: tuple[Matrix, ...]
    """Of each block [n, d]: its features' weights [d]."""
    constant: float
    errors: Matrix
    """How far each measurement lies from what all others say of it [n]."""


def fitted(blocks: Sequence[Matrix], measured: Matrix, rng: np.random.Generator) -> Fitted:
    """Fit to n measurements [n] of networks with blocks of features [n, d], of rows of a mean squared length about 1.

    `rng` draws the sets of shares.
    """
    middle, scale = float(measured.mean()), float(measured.std()) or 1.0
    found = (measured - middle) / scale
    kernels = np.array([block @ block.T for block in blocks])
    few = np.sort(rng.permutation(len(found))[:MOST_WEIGHED])
    part = kernels[:, few][:, :, few]
    sets = list(zip(*_drawn(len(blocks), rng), strict=True))
    evidence = np.array([_solved(part, *one, found[few]).evidence for one in sets])
    counts = np.exp(evidence - evidence.max())
    counts[counts < _SLIGHT] = 0
    weights = [np.zeros(block.shape[1]) for block in blocks]
    constant, errors = middle, np.zeros(len(found))
    for count, (shares, noise) in zip(counts / counts.sum(), sets, strict=True):
        if count > 0:
            one = _solved(kernels, shares, noise, found)
            for weight, block, share in zip(weights, blocks, shares, strict=True):
                weight += count * scale * share * (block.T @ one.alpha)
            constant += count * scale * float(one.alpha.sum())
            errors += count * scale * one.errors
    return Fitted(tuple(weights), constant, errors)


def _drawn(blocks: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Sets of shares [DRAWS, blocks], which sum to 1, and of noise [DRAWS], from hardly any to as much as all else."""
    shares = np.exp(rng.normal(0, 1.5, (DRAWS, blocks))) * (rng.random((DRAWS, blocks)) < 0.8)
    shares[shares.sum(1) == 0] = 1.0
    return shares / shares.sum(1, keepdims=True), 10 ** rng.uniform(-4, 0, DRAWS)


@dataclass(frozen=True)
class _Solved:
    """The logarithm of how probable measurements are; the inverse of the kernel times them; what others say of each."""

    evidence: float
    alpha: Matrix
    errors: Matrix


def _solved(kernels: Matrix, shares: Matrix, noise: float, found: Matrix) -> _Solved:
    kernel = 1.0 + noise * np.eye(len(found)) + np.tensordot(shares, kernels, 1)
    inverse = np.linalg.inv(kernel)
    alpha = inverse @ found
    volume = float(np.linalg.slogdet(kernel)[1])
    evidence = -(len(found) + _PRIOR) * float(np.log(found @ alpha + _PRIOR)) - volume
    return _Solved(evidence / 2, alpha, alpha / np.diag(inverse))
