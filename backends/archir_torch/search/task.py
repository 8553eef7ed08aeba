"""What the network of a phase is trained to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from archir.data.inputs import sizes_of
from archir.ir.graph import Graph
from archir.passes.resize import taking
from archir.recipes.recipe import Phase
from archir_torch.objectives import Objective, Together, create, task
from archir_torch.objectives.task import LOOK, Call, tested, validated
from archir_torch.search.job import Job
from archir_torch.training.feed import Feed

__all__ = ["LOOK", "Call", "Task", "objective_of", "tested", "validated"]


class Task(task.Task):
    """The objectives of a job; `graph` takes its data, which are as large as the largest of its architectures, and has
    the outputs that they read; `objective` has the parts that are trained along."""

    def __init__(self, job: Job, graph: Graph) -> None:
        self.job = job
        objective = objective_of(job.phase, job.folder)
        self.graph = task.prepared(objective, taking(graph, sizes_of(job.space.graph)), job.data, job.seed)
        super().__init__(objective, tuple(self.graph.outputs), seed=job.seed, device=job.device)

    def part_of(self, feed: Feed) -> Sequence[Tensor]:
        """What the network takes at once: of the first batch, or the first part of it where gradients are added up."""
        return self.given(next(feed.batch(0).parts(self.job.phase.training.accumulate)))


def objective_of(phase: Phase, folder: Path) -> Objective:
    """The objective of a phase, and those that are added to it; `folder` is where their paths start."""
    first = _created(phase, phase.objective, folder)
    added = [_created(phase, settings, folder) for settings in phase.also]
    return Together(first, *added) if added else first


def _created(phase: Phase, settings: Mapping[str, Any], folder: Path) -> Objective:
    """An objective by its `kind`. One that a phase taught has that phase's net and weights for a teacher."""
    given = {name: value for name, value in settings.items() if name != "kind"}
    kind = str(settings.get("kind", "classification"))
    if kind == "classification" and phase.training.label_smoothing:
        given.setdefault("label_smoothing", phase.training.label_smoothing)
    return create(kind, given, folder=folder)
