"""What a network is trained to do: the objectives of a phase, and the outputs that they want."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from archir.ir.graph import Graph
from archir.passes.expose import expose
from archir.search.seeds import mixed
from archir_torch.data import Split
from archir_torch.lowering.generators import generator
from archir_torch.objectives import Objective, create
from archir_torch.objectives.objective import Together
from archir_torch.search.job import Job
from archir_torch.training import distributed
from archir_torch.training.feed import Batch

Call = Callable[[Tensor], Any]
"""A network as a function of images: one tensor, or tensors by the names of outputs."""

LOOK = 256
"""Images that are looked at together, when something is measured."""


class Task:
    """The objectives of a job; `graph` has the outputs that they read, `objective` the parts that are trained along."""

    def __init__(self, job: Job, graph: Graph) -> None:
        self.job = job
        first = _created(job, job.phase.objective)
        added = [_created(job, settings) for settings in job.phase.also]
        self.objective: Objective = Together(first, *added) if added else first
        self.graph = expose(graph, self.objective.reads(graph))
        self._names = tuple(self.graph.outputs)
        self.objective.prepare(self.graph, job.data, generator(job.seed, "objective"))
        self.objective.to(job.device)
        self._last = (-1, 0)

    def loss(self, call: Call, batch: Batch, index: int) -> Tensor:
        """The loss of a batch, or of a part of one, at a step."""
        step, part = self._last
        self._last = (index, part + 1 if step == index else 0)
        seed = mixed(self.job.seed, "task", *self._last, distributed.world().rank)
        return self.objective.loss(self._outputs(call(self.objective.inputs(batch, seed))), batch, seed)

    def begin(self, index: int) -> None:
        """The losses that come are those of a step, whatever was computed before."""
        self._last = (index, -1)

    def measured(self, call: Call, split: Split, epoch: int) -> dict[str, float]:
        """What the objective measures: means over a split, which the processes share."""
        rank, size = distributed.world()
        totals: dict[str, Tensor] = {}
        looks = list(enumerate(torch.arange(len(split)).split(LOOK)))
        for turn in range(0, len(looks), size):  # processes look equally often: networks may be divided between them
            own = turn + rank < len(looks)
            number, rows = looks[turn + rank if own else 0]
            images, labels = split.pixels[rows].to(self.job.device), split.labels[rows].to(self.job.device)
            batch = Batch(images, labels)
            seed = mixed(self.job.seed, "measure", number)
            outputs = self._outputs(call(self.objective.inputs(batch, seed)))
            for name, value in self.objective.measure(outputs, batch, seed).items():
                part = value.double()
                totals[name] = totals.get(name, 0) + (part if own else torch.zeros_like(part))
        distributed.add(totals)
        return {name: float(total) / len(split) for name, total in sorted(totals.items())}

    def _outputs(self, found: Any) -> Mapping[str, Tensor]:
        """The outputs by name."""
        outputs: Mapping[str, Tensor] = {self._names[0]: found} if isinstance(found, Tensor) else found
        return outputs


def tested(measured: Mapping[str, float]) -> dict[str, float]:
    """Measures of held-out images by the names that rows of figures have for them: `accuracy`, `held_out_loss`."""
    return {"held_out_loss" if name == "loss" else name: value for name, value in measured.items()}


def validated(measured: Mapping[str, float]) -> dict[str, float]:
    """The same of the images that choose in a search: `validation_accuracy`, `validation_loss`."""
    return {f"validation_{name}": value for name, value in measured.items()}


def _created(job: Job, settings: Mapping[str, Any]) -> Objective:
    """An objective by its `kind`. One that a phase taught has that phase's net and weights for a teacher."""
    given = {name: value for name, value in settings.items() if name != "kind"}
    kind = str(settings.get("kind", "classification"))
    if kind == "classification" and job.phase.training.label_smoothing:
        given.setdefault("label_smoothing", job.phase.training.label_smoothing)
    return create(kind, given, folder=job.folder)
