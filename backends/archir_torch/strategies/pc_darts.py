"""PC-DARTS (Xu et al. 2020): mixtures of a part of the channels, and weighted edges."""

from __future__ import annotations

from archir.passes.relax import Edges
from archir.utils.settings import Count, NonNegative
from archir_torch.search.job import strategy
from archir_torch.strategies.relaxed import GIVES, Options, Relaxed


class PartialOptions(Options):
    """Options of `pc_darts`. A quarter of the channels; architecture parameters are trained after 15 epochs (section
    4.2)."""

    edges: Edges = "weighted"
    partial: Count = 4
    alpha_warmup_epochs: NonNegative = 15.0


@strategy("pc_darts", PartialOptions, gives=GIVES)
class PcDarts(Relaxed):
    """DARTS with partial channels and edge weights."""
