"""What makes an architecture promising, given what a model says of it."""

from __future__ import annotations

from math import erf, pi, sqrt

import numpy as np

from archir.search.surrogates.encoding import Floats
from archir.search.surrogates.ensemble import Ensemble
from archir.search.surrogates.gaussian import GaussianProcess


def improvement(vectors: Floats, numbers: Floats, pool: Floats) -> Floats:
    """By how much each of a pool [m, k] is expected to exceed the best of what was observed, by a Gaussian process [m]
    (Jones et al. 1998)."""
    means, deviations = GaussianProcess(vectors, numbers)(pool)
    beyond = (means - numbers.max()) / deviations
    below = np.array([0.5 + 0.5 * erf(one / sqrt(2)) for one in beyond.tolist()])
    return np.asarray(deviations * (beyond * below + np.exp(-beyond * beyond / 2) / sqrt(2 * pi)), np.float64)


def drawn(vectors: Floats, numbers: Floats, pool: Floats, rng: np.random.Generator) -> Floats:
    """For each of a pool a number from the normal distribution that an ensemble says: independent Thompson sampling
    (White et al. 2021, BANANAS, section 4) [m]."""
    plain = np.float32  # half the time, and what differs is far below what the networks differ in
    means, deviations = Ensemble(vectors.astype(plain), numbers.astype(plain), rng)(pool.astype(plain))
    return np.asarray(rng.normal(means, deviations), np.float64)
