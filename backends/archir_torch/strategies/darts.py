"""DARTS (Liu et al. 2019): mixtures whose alternatives are weighted by a softmax."""

from __future__ import annotations

from archir_torch.search.job import strategy
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


@strategy("darts", Options, gives=GIVES)
class Darts(Relaxed):
    """DARTS, by default with a first-order gradient.

    With `order = 2`, the gradient is computed through an optimizer step of the weights.
    """
