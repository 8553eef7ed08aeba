"""DARTS (Liu et al. 2019): mixtures whose alternatives are weighted by a softmax."""

from __future__ import annotations

from archir_torch.search.job import strategy
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


@strategy("darts", Options, gives=GIVES)
class Darts(Relaxed):
    """DARTS. It is first-order by default; `order = 2` differentiates through an optimizer step of the weights."""
