"""Distillation: what a teacher predicts, in place of labels or beside them.

Hinton, Vinyals and Dean 2015, section 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId
from archir.ir.typing import infer
from archir_torch.data import Data
from archir_torch.objectives.objective import Batch, Objective, Outputs, objective, output
from archir_torch.objectives.teacher import Teacher, TeacherSettings


class DistillationSettings(TeacherSettings):
    """`output` is what is compared, by default the first of each. `form` says what it holds: logits of classes, of
    which one is right, or of labels that are right or not, or numbers. Logits of both are divided by `temperature`."""

    output: str | None = None
    form: Literal["classes", "labels", "numbers"] = "classes"
    temperature: float = Field(1.0, gt=0, le=1e3)


@objective("distillation")
class Distillation(Objective):
    """The Kullback-Leibler divergence of the teacher's probabilities from the student's, times the temperature squared,
    so that gradients are as large at all temperatures; or half the squared difference of numbers."""

    model = DistillationSettings
    criterion = "distillation"
    larger = False

    def __init__(self, settings: DistillationSettings, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings
        self._teacher = Teacher(settings, folder)
        self._name = ""

    @property
    def directions(self) -> dict[str, bool]:
        """`distillation`."""
        return {"distillation": False}

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The output that is compared."""
        name = self.settings.output
        found = super().reads(graph) if name is None else {name: output(graph, name)}
        (self._name,) = found
        return found

    def check(self, graph: Graph, data: Data) -> None:
        """Whether the teacher predicts as much. Raises ArchError: what is wrong with the teacher's file or
        weights, or A1902, A1903."""
        number = graph.outputs[self._name]
        mine, its = infer(graph)[number], self._teacher.open(graph, {self._name: self.settings.output})[self._name]
        if mine.dims != its.dims:
            text = f"`{self._name}` of `{graph.name}` is {mine}, and of the teacher {its}"
            raise fail("A1903", text, graph[number].span)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The mean over the batch; over all tokens, pixels or numbers of a sample, too."""
        return self._apart(outputs, batch).mean()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """`distillation`: the loss."""
        return {"distillation": self._apart(outputs, batch).sum()}

    def _apart(self, outputs: Outputs, batch: Batch) -> Tensor:
        """How far student and teacher are apart [n]."""
        mine, its = outputs[self._name], self._teacher(batch)[self._name]
        apart = divergence(mine.float(), its.float(), self.settings.form, self.settings.temperature)
        return self.settings.weight * apart.flatten(1).mean(1)


def divergence(mine: Tensor, its: Tensor, form: str, temperature: float) -> Tensor:
    """How far predictions [n, ...] are apart, without the axis of classes [n, ...], which is that after the batch in
    vectors and maps, and the last one in tokens."""
    if form == "numbers":
        return (mine - its).square() / 2
    mine, its = mine / temperature, its / temperature
    if form == "labels":
        right = its.sigmoid()
        both = right * (F.logsigmoid(its) - F.logsigmoid(mine)) + (1 - right) * (
            F.logsigmoid(-its) - F.logsigmoid(-mine)
        )
        return both * temperature**2
    axis = 2 if mine.dim() == 3 else 1
    known, said = its.log_softmax(axis), mine.log_softmax(axis)
    return (known.exp() * (known - said)).sum(axis, keepdim=True) * temperature**2
