"""The task of a phase: its objectives, applied to the job's graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from archir.data.inputs import sample_shapes
from archir.ir.graph import Graph
from archir.passes.resize import with_input_sizes
from archir.recipes.recipe import Phase
from archir_torch.objectives import CombinedObjective, Objective, create, task
from archir_torch.objectives.task import EVAL_BATCH, Call, as_held_out, as_validation
from archir_torch.search.job import Job
from archir_torch.training.feed import Feed

__all__ = ["EVAL_BATCH", "Call", "Task", "as_held_out", "as_validation", "objective_of"]


class Task(task.Task):
    """The objectives of a job. `graph` has the outputs that they read, and inputs as large as the largest of the
    space's architectures; `objective` has the parts that are trained along with the network."""

    def __init__(self, job: Job, graph: Graph) -> None:
        self.job = job
        objective = objective_of(job.phase, job.folder)
        self.graph = task.prepare_graph(
            objective, with_input_sizes(graph, sample_shapes(job.space.graph)), job.data, job.seed
        )
        super().__init__(objective, tuple(self.graph.outputs), seed=job.seed, device=job.device)

    def sample_inputs(self, feed: Feed) -> Sequence[Tensor]:
        """Return the network's inputs for one forward pass: the first batch, or its first part with gradient
        accumulation."""
        return self.network_inputs(next(feed.batch(0).parts(self.job.phase.training.accumulate)))


def objective_of(phase: Phase, folder: Path) -> Objective:
    """Return the objective of a phase, combined with those in `also`; relative paths start at `folder`."""
    first = _create_objective(phase, phase.objective, folder)
    added = [_create_objective(phase, settings, folder) for settings in phase.also]
    return CombinedObjective(first, *added) if added else first


def _create_objective(phase: Phase, settings: Mapping[str, Any], folder: Path) -> Objective:
    """Create an objective from its `kind` and settings. Label smoothing of the training settings is the default for
    `classification`. For a teacher that an earlier phase trained, the settings already name that phase's net and
    weights."""
    options = {name: value for name, value in settings.items() if name != "kind"}
    kind = str(settings.get("kind", "classification"))
    if kind == "classification" and phase.training.label_smoothing:
        options.setdefault("label_smoothing", phase.training.label_smoothing)
    return create(kind, options, folder=folder)
