"""Strict fairness sampling (Chu et al. 2021, FairNAS): each step trains every alternative of a choice equally
often."""

from __future__ import annotations

import random
from collections.abc import Sequence

from archir.spaces.architecture import Architecture
from archir.spaces.path_sampling import fair
from archir_torch.search.job import strategy
from archir_torch.strategies.supernet import Supernet, SupernetOptions


@strategy("fair", SupernetOptions, orders=True, gives=("weights", "supernet"))
class Fair(Supernet):
    """Supernet training with as many paths per step as a choice has alternatives."""

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """Return paths in which every choice runs through a random permutation of its alternatives."""
        return fair(self.space, rng)
