"""Jobs and outcomes with torch tensors, the `Strategy` protocol, and the registry of strategies."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from archir.recipes import job
from archir.recipes.strategies import Strategies
from archir.recipes.trials import SCORERS
from archir_torch.data import Data
from archir_torch.training.loop import Trainable

Job = job.Job[Data, Tensor]
Outcome = job.Outcome[Tensor]


class Strategy(Trainable, Protocol):
    """Protocol of the strategy of a phase. A strategy that does not train has no epochs.

    Optional: a method `shown` returns numbers by name that the journal holds for each epoch, such as the probabilities
    that the live report draws; a class method `mistakes` yields errors for which a recipe is rejected (see
    `archir.recipes.strategies.Mistakes`).
    """

    epochs: int
    steps: int

    def outcome(self) -> Outcome:
        """Return the result of the phase."""


STRATEGIES: Strategies[Job, Strategy] = Strategies(
    "strategy", "strategies", "archir_torch.strategies.trials", "archir_torch.strategies", "archir.search.strategies"
)
"""Registry of the strategies in this backend."""

SCORERS.add_package("archir_torch.search.scoring")

strategy, kind_of, create_strategy, uses_all_samples = (
    STRATEGIES.strategy,
    STRATEGIES.kind_of,
    STRATEGIES.create,
    STRATEGIES.uses_all_samples,
)
