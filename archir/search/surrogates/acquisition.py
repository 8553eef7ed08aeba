"""Acquisition functions: estimate, with a surrogate model, how promising unscored architectures are."""

from __future__ import annotations

from math import erf, pi, sqrt

import numpy as np

from archir.search.surrogates.encoding import Floats
from archir.search.surrogates.ensemble import Ensemble
from archir.search.surrogates.gaussian import GaussianProcess


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
