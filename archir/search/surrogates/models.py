"""Surrogate models of architectures' scores, and acquisition functions.

Gaussian process on encoded architectures (Rasmussen and Williams 2006, algorithm 2.1): the kernel is exp(-d / l),
where d is the squared distance. Length scale l and noise are selected from a small grid by maximum likelihood; the
variance has a closed form. On NAS-Bench-201, it finds architectures as good as those found with random forests of
scikit-learn, in a tenth of the time (docs/decisions/search.md).

Ensemble of networks with one hidden layer of random weights, of which only the output layer is fitted (Schmidt et al.
1992): each network has its own hidden weights and is fitted by least squares to a bootstrap sample of the
observations, so that the networks disagree where observations are sparse. BANANAS trains five networks by gradient
descent; fitting these takes a millisecond each and does not need torch.
"""

from __future__ import annotations

from math import erf, pi, sqrt

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
NETWORKS = 5
"""Number of networks, as in BANANAS (White et al. 2021, section 4)."""
HIDDEN = 256
"""Width of the hidden layer."""
RIDGE = 0.3
"""L2 penalty on the output weights, relative to the squared error of one observation."""


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


class Ensemble:
    """Ensemble fitted to vectors [n, k] and numbers [n] with mean 0."""

    def __init__(self, vectors: Floats, numbers: Floats, rng: np.random.Generator) -> None:
        self._networks = [self._network(vectors, numbers, rng) for _ in range(NETWORKS)]

    @staticmethod
    def _network(vectors: Floats, numbers: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Fit one network; return its hidden weights [k, HIDDEN], biases [HIDDEN], and output weights [HIDDEN]."""
        dtype = vectors.dtype
        hidden = rng.normal(size=(vectors.shape[1], HIDDEN)).astype(dtype)
        offsets = rng.normal(size=HIDDEN).astype(dtype)
        counts = np.bincount(rng.integers(len(numbers), size=len(numbers)), minlength=len(numbers))
        (sampled,) = np.nonzero(counts)
        weights = np.sqrt(counts[sampled]).astype(
            dtype
        )  # an observation sampled twice is one row with twice the weight
        features = _features(vectors[sampled], hidden, offsets) * weights[:, None]
        system = features @ features.T
        system.flat[:: len(sampled) + 1] += RIDGE
        return hidden, offsets, features.T @ np.linalg.solve(system, numbers[sampled] * weights)

    def __call__(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return the mean and standard deviation [m] of the networks' predictions for vectors [m, k]."""
        predictions = np.stack(
            [_features(vectors, hidden, offsets) @ output for hidden, offsets, output in self._networks]
        )
        return predictions.mean(0), predictions.std(0)


def _features(vectors: Floats, hidden: Floats, offsets: Floats) -> Floats:
    """Return the hidden ReLU activations [n, HIDDEN], scaled by sqrt(2 / HIDDEN)."""
    features = vectors @ hidden
    features += offsets
    np.maximum(features, 0.0, out=features)
    features *= (2 / HIDDEN) ** 0.5
    return features


def expected_improvement(vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
    """Return the expected improvement [m] of each architecture in a pool [m, k] over the best observation.

    It is computed with a Gaussian process (Jones et al. 1998) that is fitted to `vectors` [n, k] and `numbers`
    [n].
    """
    means, deviations = GaussianProcess(vectors, numbers)(pool)
    standardised = (means - numbers.max()) / deviations
    cdf = np.array([0.5 + 0.5 * erf(z / sqrt(2)) for z in standardised.tolist()])
    return np.asarray(
        deviations * (standardised * cdf + np.exp(-standardised * standardised / 2) / sqrt(2 * pi)), np.float64
    )


def thompson_samples(vectors: Floats, numbers: Floats, pool: Floats, rng: np.random.Generator) -> Floats:
    """Return a sample [m] from the predictive distribution of each architecture in a pool [m, k].

    The distributions are normal, with an ensemble's mean and deviation: independent Thompson sampling (White et
    al. 2021, BANANAS, section 4).
    """
    dtype = np.float32  # half the time; rounding errors are far below the disagreement of the networks
    means, deviations = Ensemble(vectors.astype(dtype), numbers.astype(dtype), rng)(pool.astype(dtype))
    return np.asarray(rng.normal(means, deviations), np.float64)
