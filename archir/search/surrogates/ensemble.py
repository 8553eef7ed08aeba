"""An ensemble of networks of one hidden layer, of which only the last one is fitted (Schmidt et al. 1992).

Each has hidden weights of its own, and is fitted by least squares to a sample of what was observed, drawn with
repetition: where nothing is known, the networks disagree. BANANAS trains five networks by gradients; these are fitted
in a millisecond each, without torch.
"""

from __future__ import annotations

import numpy as np

from archir.search.surrogates.encoding import Floats

NETWORKS = 5
"""As many as in BANANAS (White et al. 2021, section 4)."""
HIDDEN = 256
RIDGE = 0.3
"""The penalty of the squares of weights, in observations."""


class Ensemble:
    """Fitted to vectors [n, k] and numbers [n] of mean 0."""

    def __init__(self, vectors: Floats, numbers: Floats, rng: np.random.Generator) -> None:
        self._networks = [self._network(vectors, numbers, rng) for _ in range(NETWORKS)]

    @staticmethod
    def _network(vectors: Floats, numbers: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        kind = vectors.dtype
        hidden = rng.normal(size=(vectors.shape[1], HIDDEN)).astype(kind)
        offsets = rng.normal(size=HIDDEN).astype(kind)
        often = np.bincount(rng.integers(len(numbers), size=len(numbers)), minlength=len(numbers))
        (drawn,) = np.nonzero(often)
        weights = np.sqrt(often[drawn]).astype(kind)  # what is drawn twice counts twice, in one row
        features = _features(vectors[drawn], hidden, offsets) * weights[:, None]
        system = features @ features.T
        system.flat[:: len(drawn) + 1] += RIDGE
        return hidden, offsets, features.T @ np.linalg.solve(system, numbers[drawn] * weights)

    def __call__(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Means and standard deviations [m] of what the networks say of vectors [m, k]."""
        said = np.stack([_features(vectors, hidden, offsets) @ last for hidden, offsets, last in self._networks])
        return said.mean(0), said.std(0)


def _features(vectors: Floats, hidden: Floats, offsets: Floats) -> Floats:
    found = vectors @ hidden
    found += offsets
    np.maximum(found, 0.0, out=found)
    found *= (2 / HIDDEN) ** 0.5
    return found
