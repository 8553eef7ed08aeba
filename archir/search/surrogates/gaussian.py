"""Gaussian process on encoded architectures (Rasmussen and Williams 2006, algorithm 2.1).

The kernel is exp(-d / l), where d is the squared distance. Length scale l and noise are selected from a small
grid by maximum likelihood; the variance has a closed form. On NAS-Bench-201, it finds architectures as good
as those found with random forests of scikit-learn, in a tenth of the time (docs/decisions/search.md).
"""

from __future__ import annotations

import numpy as np

from archir.search.surrogates.encoding import Floats

LENGTHS = (0.5, 1.0, 2.0)
"""Grid of length scales, in units of the mean squared distance between observations."""
NOISES = (1e-3, 1e-2, 1e-1)
"""Grid of noise variances, relative to the variance of the process."""
MAX_LIKELIHOOD_POINTS = 100
"""Maximum number of observations for computing the likelihood; of more, an evenly spaced subset is used."""
BLOCK = 48
"""Block size of `solve_lower` in rows."""
_EPSILON = 1e-9
"""Lower bound on variances and distances."""


class GaussianProcess:
    """Gaussian process fitted to vectors [n, k] and numbers [n] with mean 0, in any order."""

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
        """Return the log likelihood, up to a constant, maximised over the process variance.

        It requires the determinant of the kernel matrix K, and y' K^-1 y. Both come from one Cholesky factorisation
        of K bordered by the numbers y as last row and column: the determinant from the diagonal, L^-1 y from the last
        row.
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
        """Return the predictive mean and standard deviation [m] for vectors [m, k]."""
        solved = solve_lower(self._lower, np.exp(squared_distances(self._vectors, vectors) / -self._length))
        variances = np.maximum(_EPSILON, 1.0 - np.einsum("ij,ij->j", solved, solved))
        return self._solved @ solved, np.sqrt(self._variance * variances)


def _fit_hyperparameters(distances: Floats, numbers: Floats) -> tuple[float, float]:
    """Return the length scale and noise of the grid with maximum likelihood."""
    mean = max(_EPSILON, float(distances.mean()))
    kernels = {mean * length: np.exp(distances / -(mean * length)) for length in LENGTHS}
    grid = [(length, noise) for length in kernels for noise in NOISES]
    return max(grid, key=lambda pair: GaussianProcess._log_likelihood(kernels[pair[0]], numbers, pair[1]))


def solve_lower(lower: Floats, right: Floats) -> Floats:
    """Solve `lower` [n, n] @ X = `right` [n, m] for X [n, m], where `lower` is lower triangular.

    Works block by block, since numpy has no triangular solver.
    """
    solution = np.empty_like(right)
    for begin in range(0, len(lower), BLOCK):
        rows = slice(begin, begin + BLOCK)
        residual = right[rows] - lower[rows, :begin] @ solution[:begin]
        solution[rows] = np.linalg.inv(lower[rows, rows]) @ residual
    return solution


def squared_distances(first: Floats, second: Floats) -> Floats:
    """Return the pairwise squared distances [n, m] between vectors [n, k] and [m, k]."""
    distances = first @ (-2.0 * second.T)
    distances += (first * first).sum(1)[:, None]
    distances += (second * second).sum(1)
    return np.maximum(distances, 0.0, out=distances)
