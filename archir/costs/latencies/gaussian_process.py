"""Gaussian process regression, averaged over sampled hyperparameters of the kernel.

The kernel is a sum of a constant, noise, and a linear kernel for each block of features, scaled by the block's share. A
few measurements do not determine the shares. Therefore many sets of shares are sampled, each weighted by the
probability of the measurements under it (Rasmussen and Williams 2006, sections 2.2 and 5.4.1, with the overall scale
integrated out). Leave-one-out errors (section 5.4.2) estimate the error of predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
HYPERPARAMETER_SAMPLES = 256
"""Number of sampled sets of hyperparameters."""
MAX_WEIGHTING_POINTS = 300
"""Maximum number of measurements used to weight the sets of hyperparameters."""
_PRIOR_OBSERVATIONS = 0.2
"""Strength of the prior of the scale, as a number of pseudo-observations of variance 1."""
_MIN_RELATIVE_WEIGHT = 1e-3
"""Minimum weight of a set of hyperparameters, relative to the best one's; sets below it are left out."""


@dataclass(frozen=True)
class FittedProcess:
    """A process fitted to n measurements, in the unit of the measurements."""

    weights: tuple[Matrix, ...]
    """Linear weights [d] for each block of features [n, d]."""
    constant: float
    errors: Matrix
    """Leave-one-out error of each measurement [n]."""


def fit_process(blocks: Sequence[Matrix], measured: Matrix, rng: np.random.Generator) -> FittedProcess:
    """Fit a process to n measurements [n] of networks with blocks of features [n, d].

    The rows of each block should have a mean squared length of about 1. `rng` samples the sets of hyperparameters.
    """
    mean, scale = float(measured.mean()), float(measured.std()) or 1.0
    targets = (measured - mean) / scale
    kernels = np.array([block @ block.T for block in blocks])
    subset = np.sort(rng.permutation(len(targets))[:MAX_WEIGHTING_POINTS])
    subset_kernels = kernels[:, subset][:, :, subset]
    samples = list(zip(*_sample_hyperparameters(len(blocks), rng), strict=True))
    evidence = np.array([_evidence(_kernel(subset_kernels, *sample), targets[subset]) for sample in samples])
    counts = np.exp(evidence - evidence.max())
    counts[counts < _MIN_RELATIVE_WEIGHT] = 0
    weights = [np.zeros(block.shape[1]) for block in blocks]
    constant, errors = mean, np.zeros(len(targets))
    for count, (shares, noise) in zip(counts / counts.sum(), samples, strict=True):
        if count > 0:
            alpha, left_out = _solve(_kernel(kernels, shares, noise), targets)
            for weight, block, share in zip(weights, blocks, shares, strict=True):
                weight += count * scale * share * (block.T @ alpha)
            constant += count * scale * float(alpha.sum())
            errors += count * scale * left_out
    return FittedProcess(tuple(weights), constant, errors)


def _sample_hyperparameters(blocks: int, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Sample HYPERPARAMETER_SAMPLES sets of hyperparameters: shares [samples, blocks] and noise levels [samples].

    The shares of a set sum to 1. The noise level ranges from almost none to that of all other parts of the kernel
    together.
    """
    shares = np.exp(rng.normal(0, 1.5, (HYPERPARAMETER_SAMPLES, blocks))) * (
        rng.random((HYPERPARAMETER_SAMPLES, blocks)) < 0.8
    )
    shares[shares.sum(1) == 0] = 1.0
    return shares / shares.sum(1, keepdims=True), 10 ** rng.uniform(-4, 0, HYPERPARAMETER_SAMPLES)


def _kernel(kernels: Matrix, shares: Matrix, noise: float) -> Matrix:
    """Return the kernel matrix [n, n] for the matrices [blocks, n, n] of the blocks."""
    return 1.0 + noise * np.eye(kernels.shape[1]) + np.tensordot(shares, kernels, 1)


def _solve(kernel: Matrix, targets: Matrix) -> tuple[Matrix, Matrix]:
    """Return the inverse kernel matrix times the measurements [n], and leave-one-out errors [n]."""
    inverse = np.linalg.inv(kernel)
    alpha = inverse @ targets
    return alpha, alpha / np.diag(inverse)


def _evidence(kernel: Matrix, targets: Matrix) -> float:
    """Return the log of the probability of the measurements, up to a constant."""
    factor = np.linalg.cholesky(kernel)
    whitened = np.linalg.solve(factor, targets)
    fit = (len(targets) + _PRIOR_OBSERVATIONS) * np.log(whitened @ whitened + _PRIOR_OBSERVATIONS)
    return float(-fit / 2 - np.log(np.diag(factor)).sum())
