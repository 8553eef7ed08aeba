"""Jobs and outcomes in torch, what a strategy is, and which there are."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from archir.recipes import job
from archir.recipes.strategies import Strategies
from archir_torch.data import Data
from archir_torch.training.loop import Trainee

Job = job.Job[Data, Tensor]
Outcome = job.Outcome[Tensor]


class Strategy(Trainee, Protocol):
    """A strategy of a phase. One that does not train has no epochs.

    If there is a method `shown`, TensorBoard shows the numbers by name that it gives after an epoch. If there is a
    class method `mistakes`, recipes are refused for what it says (see `archir.recipes.strategies.Mistakes`).
    """

    epochs: int
    steps: int

    def outcome(self) -> Outcome:
        """What it came to."""


STRATEGIES: Strategies[Job, Strategy] = Strategies("strategy", "strategies")
"""Those of this backend, by name."""

strategy, kind_of, made, whole = STRATEGIES.strategy, STRATEGIES.kind_of, STRATEGIES.made, STRATEGIES.whole
