"""The baseline: an architecture drawn at random."""

from __future__ import annotations

import random
from collections.abc import Mapping

from torch import Tensor

from archir.search.recipes.open_choices import settle
from archir.search.seeds import mixed
from archir_torch.search.job import Job, Outcome
from archir_torch.training.checkpoints.state import State


class Drawn:
    """Uniform over the architectures that satisfy every constraint; nothing is trained, and nothing scored."""

    epochs = 0
    steps = 1

    def __init__(self, job: Job) -> None:
        self.job = job

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Never called: there are no epochs."""
        return {}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Nothing to measure."""
        return {}

    def state(self) -> State:
        """Nothing."""
        return State({}, {})

    def restore(self, state: State) -> None:
        """Nothing."""

    def finished(self) -> str | None:
        """At once."""
        return None

    def outcome(self) -> Outcome:
        """What was drawn."""
        phase = self.job.phase
        opened = settle(self.job.space, phase.open, phase.fixed, self.job.architecture)
        drawn = opened.space.sample(random.Random(mixed(self.job.seed, "random")))
        return Outcome(architecture=opened.completed(drawn))
