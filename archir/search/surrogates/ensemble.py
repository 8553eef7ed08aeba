"""Ensemble of networks with one hidden layer of random weights, of which only the output layer is fitted
(Schmidt et al. 1992).

Each network has its own hidden weights and is fitted by least squares to a bootstrap sample of the
observations, so that the networks disagree where observations are sparse. BANANAS trains five networks by
gradient descent; fitting these takes a millisecond each and does not need torch.
"""

from __future__ import annotations

import numpy as np

from archir.search.surrogates.encoding import Floats

NETWORKS = 5
"""Number of networks, as in BANANAS (White et al. 2021, section 4)."""
HIDDEN = 256
"""Width of the hidden layer."""
RIDGE = 0.3
"""L2 penalty on the output weights, relative to the squared error of one observation."""


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
