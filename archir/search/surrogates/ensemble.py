"""Ensemble of networks with one hidden layer whose weights are random; only the output layer is fitted (Schmidt et al.
1992).

Each network has its own hidden weights and is fitted by least squares to a bootstrap sample of the observations, so
that the networks disagree where there are few observations. BANANAS trains five networks by gradient descent; these
are fitted in a millisecond each, without torch.
"""

from __future__ import annotations

import numpy as np

from archir.search.surrogates.encoding import Floats

NETWORKS = 5
"""Number of networks: as in BANANAS (White et al. 2021, section 4)."""
HIDDEN = 256
"""Width of the hidden layer."""
RIDGE = 0.3
"""L2 penalty of the output weights, in numbers of observations."""


class Ensemble:
    """Ensemble that is fitted to vectors [n, k] and numbers [n] with mean 0."""

    def __init__(self, vectors: Floats, numbers: Floats, rng: np.random.Generator) -> None:
        self._networks = [self._network(vectors, numbers, rng) for _ in range(NETWORKS)]

    @staticmethod
    def _network(vectors: Floats, numbers: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Fit one network. Returns its hidden weights [k, HIDDEN], offsets [HIDDEN] and output weights [HIDDEN]."""
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
        """Return the means and standard deviations [m] of the networks' predictions for vectors [m, k]."""
        predictions = np.stack(
            [_features(vectors, hidden, offsets) @ output for hidden, offsets, output in self._networks]
        )
        return predictions.mean(0), predictions.std(0)


def _features(vectors: Floats, hidden: Floats, offsets: Floats) -> Floats:
    """Return the activations of the hidden layer [n, HIDDEN], scaled by sqrt(2 / HIDDEN)."""
    features = vectors @ hidden
    features += offsets
    np.maximum(features, 0.0, out=features)
    features *= (2 / HIDDEN) ** 0.5
    return features
