"""PC-DARTS (Xu et al. 2020): mixtures on a part of the channels, and weighted edges."""

from __future__ import annotations

from archir.passes.relax import Edges
from archir.utils.settings import Count, NonNegative
from archir_torch.search.job import strategy
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


class PartialOptions(Options):
    """Options of `pc_darts`.

    By default, mixtures use a quarter of the channels, and the first 15 epochs train weights only (section 4.2).
    """

    edges: Edges = "weighted"
    partial: Count = 4
    alpha_warmup_epochs: NonNegative = 15.0


@strategy("pc_darts", PartialOptions, gives=GIVES)
class PcDarts(Relaxed):
    """DARTS with partial channel connections and edge weights."""
