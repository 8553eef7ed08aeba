"""Strict fairness sampling (Chu et al. 2021, FairNAS): each step trains all alternatives of a choice equally often."""

from __future__ import annotations

import random
from collections.abc import Sequence

from archir.spaces.architecture import Architecture
from archir.spaces.path_sampling import fair
from archir_torch.search.job import strategy
from archir_torch.strategies.supernet import Supernet, SupernetOptions


@strategy("fair", SupernetOptions, orders=True, gives=("weights", "supernet"))
class Fair(Supernet):
    """Supernet training with as many paths per step as there are alternatives."""

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """Return paths that are permutations of all alternatives."""
        return fair(self.space, rng)
