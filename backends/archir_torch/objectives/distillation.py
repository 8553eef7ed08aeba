"""Knowledge distillation: trains on the predictions of a teacher, in place of labels or in addition to them.

Source: Hinton, Vinyals and Dean 2015, section 2.
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
from archir_torch.objectives.objective import Batch, Objective, Outputs, objective, output_node
from archir_torch.objectives.teacher import Teacher, TeacherSettings


class DistillationSettings(TeacherSettings):
    """Settings of `distillation`.

    `output` is the output to compare, by default the first one of each network. `form` says what the output holds:
    logits of exclusive classes (`classes`), logits of independent labels (`labels`), or numbers (`numbers`). Logits are
    divided by `temperature`.
    """

    output: str | None = None
    form: Literal["classes", "labels", "numbers"] = "classes"
    temperature: float = Field(1.0, gt=0, le=1e3)


@objective("distillation")
class Distillation(Objective):
    """Kullback-Leibler divergence KL(teacher || student) of predicted probabilities, times the squared temperature.

    The factor gives gradients the same scale at all temperatures. For numbers, the loss is half the squared difference.
    """

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
        """Directions of the measures: `distillation` is the only one, and smaller is better."""
        return {"distillation": False}

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the node of the output that is compared with the teacher's."""
        name = self.settings.output
        outputs = super().reads(graph) if name is None else {name: output_node(graph, name)}
        (self._name,) = outputs
        return outputs

    def check(self, graph: Graph, data: Data) -> None:
        """Check that the compared outputs of teacher and student have the same shape.

        Raises ArchError: errors in the teacher's file or weights, A1902 (no such output), or A1903 (shapes differ).
        """
        node = graph.outputs[self._name]
        student_type, teacher_type = (
            infer(graph)[node],
            self._teacher.open(graph, {self._name: self.settings.output})[self._name],
        )
        if student_type.dims != teacher_type.dims:
            text = (
                f"`{self._name}` of `{graph.name}` is {student_type}, but the teacher's is {teacher_type}: shapes "
                "must be equal"
            )
            raise fail("A1903", text, graph[node].span)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the weighted mean of the divergence over the batch and over the tokens, pixels or numbers in each
        sample."""
        return self._distances(outputs, batch).mean()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return `distillation`: the loss of each sample, summed over the samples of the batch."""
        return {"distillation": self._distances(outputs, batch).sum()}

    def _distances(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the weighted distance between student and teacher for each sample, [n]."""
        student, teacher = outputs[self._name], self._teacher(batch)[self._name]
        distance = divergence(student.float(), teacher.float(), self.settings.form, self.settings.temperature)
        return self.settings.weight * distance.flatten(1).mean(1)


def divergence(student: Tensor, teacher: Tensor, form: str, temperature: float) -> Tensor:
    """Return the element-wise divergence between predictions [n, ...] of student and teacher.

    For `form = "classes"`, the divergence is summed over the class axis, which is kept with size 1. The class axis is
    axis 1 in vectors and maps, and the last axis in tokens.
    """
    if form == "numbers":
        return (student - teacher).square() / 2
    student, teacher = student / temperature, teacher / temperature
    if form == "labels":
        probability = teacher.sigmoid()
        divergences = probability * (F.logsigmoid(teacher) - F.logsigmoid(student)) + (1 - probability) * (
            F.logsigmoid(-teacher) - F.logsigmoid(-student)
        )
        return divergences * temperature**2
    axis = 2 if student.dim() == 3 else 1
    teacher_log, student_log = teacher.log_softmax(axis), student.log_softmax(axis)
    return (teacher_log.exp() * (teacher_log - student_log)).sum(axis, keepdim=True) * temperature**2
