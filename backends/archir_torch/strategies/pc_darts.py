"""PC-DARTS (Xu et al. 2020): mixtures see a part of the channels, and inputs have weights of their own."""

from __future__ import annotations

from pydantic import Field

from archir.passes.relax import Edges
from archir_torch.search.job import strategy
from archir_torch.strategies.relaxed import Options, Relaxed


class PartialOptions(Options):
    """A quarter of the channels; architecture parameters wait for 15 epochs (section 4.2)."""

    edges: Edges = "weighted"
    partial: int = Field(default=4, ge=1)
    hold: float = Field(default=15.0, ge=0)


@strategy("pc_darts", PartialOptions)
class PcDarts(Relaxed):
    """DARTS with these options."""
