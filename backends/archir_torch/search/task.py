"""Task of a phase: its objectives, bound to the graph of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from archir.data.inputs import sample_shapes
from archir.ir.graph import Graph
from archir.passes.resize import with_input_sizes
from archir.recipes.recipe import Phase
from archir.utils.seeds import derive_seed
from archir_torch.data import Split
from archir_torch.objectives import CombinedObjective, Objective, create, task
from archir_torch.objectives.task import EVAL_BATCH, Call, as_held_out, as_validation
from archir_torch.search.job import Job
from archir_torch.training import distributed
from archir_torch.training.feed import Feed

__all__ = ["EVAL_BATCH", "Call", "Task", "as_held_out", "as_validation", "objective_of"]


class Task(task.Task):
    """Objectives of a job, bound to a graph.

    `graph` has the outputs that the objectives read; its inputs are as large as those of the space's largest
    architecture.
    `objective` holds the modules that are trained along with the network.
    """

    def __init__(self, job: Job, graph: Graph) -> None:
        self.job = job
        objective = objective_of(job.phase, job.folder)
        self.graph = task.prepare_graph(
            objective, with_input_sizes(graph, sample_shapes(job.space.graph)), job.data, job.seed
        )
        super().__init__(objective, tuple(self.graph.outputs), seed=job.seed, device=job.device)

    def feed(self, samples: Split, purpose: str) -> Feed:
        """Return the augmented training batches of some samples, in an order that depends on the job's seed and the
        `purpose`."""
        phase, data = self.job.phase, self.job.phase.data
        assert data is not None
        rank, size = distributed.world()
        return Feed(
            samples, phase.training.batch, seed=derive_seed(self.job.seed, purpose),
            augment=phase.augment or data.augment, device=self.job.device, rank=rank, world=size,
            classes=len(self.job.data.classes), scales=self.job.data.scales,
        )  # fmt: skip

    def sample_inputs(self, feed: Feed) -> Sequence[Tensor]:
        """Return typical network inputs of one forward pass.

        These are the inputs of the first batch or, if gradients are accumulated over parts of a batch, of its first
        part.
        """
        return self.network_inputs(next(feed.batch(0).parts(self.job.phase.training.accumulate)))


def objective_of(phase: Phase, folder: Path) -> Objective:
    """Return the objective of a phase, combined with the additional objectives in `also`.

    Relative paths are resolved against `folder`.
    """
    first = _create_objective(phase, phase.objective, folder)
    added = [_create_objective(phase, settings, folder) for settings in phase.also]
    return CombinedObjective(first, *added) if added else first


def _create_objective(phase: Phase, settings: Mapping[str, Any], folder: Path) -> Objective:
    """Create an objective from its `kind` and settings.

    For `classification`, the label smoothing in the training settings is the default. If an earlier phase trained the
    teacher, the settings already name the net and weights of that phase.
    """
    options = {name: value for name, value in settings.items() if name != "kind"}
    kind = str(settings.get("kind", "classification"))
    if kind == "classification" and phase.training.label_smoothing:
        options.setdefault("label_smoothing", phase.training.label_smoothing)
    return create(kind, options, folder=folder)
