"""The baseline: an architecture drawn at random."""

from __future__ import annotations

import random

from archir.recipes.open_choices import settle
from archir.utils.seeds import mixed
from archir_torch.search.job import Job, Outcome
from archir_torch.strategies.untrained import Untrained


class Drawn(Untrained):
    """Uniform over the architectures that satisfy every constraint; nothing is trained, and nothing scored."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def outcome(self) -> Outcome:
        """What was drawn."""
        phase = self.job.phase
        opened = settle(self.job.space, phase.open, phase.fixed, self.job.architecture)
        drawn = opened.space.sample(random.Random(mixed(self.job.seed, "random")))
        return Outcome(architecture=opened.completed(drawn))
