"""Fair sampling: each step trains all alternatives of a choice as often as each other (Chu et al. 2021, FairNAS)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from archir.spaces.architecture import Architecture
from archir.spaces.paths import fair
from archir_torch.search.job import strategy
from archir_torch.strategies.supernet import Supernet, SupernetOptions


@strategy("fair", SupernetOptions, orders=True, gives=("weights", "supernet"))
class Fair(Supernet):
    """As many paths a step as there are alternatives."""

    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """Permutations of all alternatives."""
        return fair(self.space, rng)
