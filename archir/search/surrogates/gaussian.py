"""Gaussian process on vectors of architectures (Rasmussen and Williams 2006, algorithm 2.1).

The kernel is exp(-d / l) of squared distances d. The length l and the noise are those of a small grid with the largest
likelihood; the variance has a closed form. On NAS-Bench-201 it finds architectures as good as random forests of
scikit-learn do, in a tenth of their time (docs/decisions/search.md).
"""

from __future__ import annotations

import numpy as np

from archir.search.surrogates.encoding import Floats

LENGTHS = (0.5, 1.0, 2.0)
"""Grid of the kernel's length, in mean squared distances of the observations."""
NOISES = (1e-3, 1e-2, 1e-1)
"""Grid of the noise's variance, relative to the variance of the process."""
MAX_LIKELIHOOD_POINTS = 100
"""Maximum number of observations used for the likelihood; if there are more, as many evenly spaced ones are used."""
BLOCK = 48
"""Number of rows that `solve_lower` solves for at a time."""
_EPSILON = 1e-9
"""Lower bound of variances and distances."""


class GaussianProcess:
    """Gaussian process that is fitted to vectors [n, k] and numbers [n] with mean 0; the numbers may be sorted."""

    def __init__(self, vectors: Floats, numbers: Floats) -> None:
        self._vectors = vectors
        distances = squared_distances(vectors, vectors)
        subset = np.linspace(0, len(numbers) - 1, min(len(numbers), MAX_LIKELIHOOD_POINTS)).round().astype(int)
        self._length, noise = _fit_hyperparameters(distances[np.ix_(subset, subset)], numbers[subset])
        kernel = np.exp(distances / -self._length)
        kernel.flat[:: len(numbers) + 1] += noise
        self._lower = np.linalg.cholesky(kernel)
        self._solved = solve_lower(self._lower, numbers[:, None])[:, 0]
        self._variance = max(_EPSILON, float(self._solved @ self._solved) / len(numbers))

    @staticmethod
    def _log_likelihood(kernel: Floats, numbers: Floats, noise: float) -> float:
        """Compute the logarithm of the likelihood, up to a constant, for the variance that maximises it.

        It needs the determinant of the kernel K and y' K^-1 y. One Cholesky factorisation of K, with the numbers y
        appended as a row and a column, gives both: the diagonal has the determinant, and the last row is L^-1 y.
        """
        count = len(numbers)
        bordered = np.empty((count + 1, count + 1), kernel.dtype)
        bordered[:count, :count] = kernel
        bordered[count, :count] = bordered[:count, count] = numbers
        bordered[count, count] = (
            2 * float(numbers @ numbers) / noise + 1
        )  # no eigenvalue of the kernel is below the noise
        bordered.flat[:: count + 2] += noise
        lower = np.linalg.cholesky(bordered)
        variance = max(_EPSILON, float(lower[count, :count] @ lower[count, :count]) / count)
        return -0.5 * (count * float(np.log(variance)) + 2 * float(np.log(np.diagonal(lower)[:count]).sum()))

    def __call__(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return the predicted means and standard deviations [m] for vectors [m, k]."""
        solved = solve_lower(self._lower, np.exp(squared_distances(self._vectors, vectors) / -self._length))
        variances = np.maximum(_EPSILON, 1.0 - np.einsum("ij,ij->j", solved, solved))
        return self._solved @ solved, np.sqrt(self._variance * variances)


def _fit_hyperparameters(distances: Floats, numbers: Floats) -> tuple[float, float]:
    """Return the length and the noise of the grid that maximise the likelihood."""
    mean = max(_EPSILON, float(distances.mean()))
    kernels = {mean * length: np.exp(distances / -(mean * length)) for length in LENGTHS}
    grid = [(length, noise) for length in kernels for noise in NOISES]
    return max(grid, key=lambda pair: GaussianProcess._log_likelihood(kernels[pair[0]], numbers, pair[1]))


def solve_lower(lower: Floats, right: Floats) -> Floats:
    """Solve a lower triangular system: return X [n, m] with `lower` [n, n] @ X = `right` [n, m].

    Works block by block, as numpy has no triangular solver.
    """
    solution = np.empty_like(right)
    for begin in range(0, len(lower), BLOCK):
        rows = slice(begin, begin + BLOCK)
        residual = right[rows] - lower[rows, :begin] @ solution[:begin]
        solution[rows] = np.linalg.inv(lower[rows, rows]) @ residual
    return solution


def squared_distances(first: Floats, second: Floats) -> Floats:
    """Return the squared distances [n, m] of vectors [n, k] and [m, k]."""
    distances = first @ (-2.0 * second.T)
    distances += (first * first).sum(1)[:, None]
    distances += (second * second).sum(1)
    return np.maximum(distances, 0.0, out=distances)
