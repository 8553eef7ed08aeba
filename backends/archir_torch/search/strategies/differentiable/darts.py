"""DARTS (Liu et al. 2019): mixtures weighted by a softmax."""

from __future__ import annotations

from archir_torch.search.job import strategy
from archir_torch.search.strategies.differentiable.relaxed import Options, Relaxed


@strategy("darts", Options)
class Darts(Relaxed):
    """First order by default; `order = 2` unrolls a step of the weights."""
