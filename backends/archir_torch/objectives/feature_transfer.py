"""Feature transfer: trains the student so that a linear map of its hidden values reproduces those of a teacher.

Source: Romero et al. 2015 (FitNets), equation 3. The error is relative to the teacher's values, so that all stages
have equal weight.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import fail
from archir.diagrams.diagram import leaves
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir_torch.data import Data
from archir_torch.objectives.objective import Batch, Outputs, objective
from archir_torch.objectives.teacher import StageObjective, StageSettings


@objective("feature_transfer")
class FeatureTransfer(StageObjective):
    """Squared difference between the teacher's hidden values and a linear map of the student's hidden values.

    The difference is divided by the teacher's squared values, and averaged over stages. The linear maps, one per
    stage, are trained along with the student. A student with fewer channels than the maximum uses the corresponding
    part of a linear map.
    """

    model = StageSettings
    criterion = "features"

    def __init__(self, settings: StageSettings, folder: Path | None = None) -> None:
        super().__init__(settings, folder)
        self.maps = nn.ParameterList()

    def check(self, graph: Graph, data: Data) -> None:
        """Check that the stages of student and teacher differ in their number of channels only.

        Raises ArchError: errors in the teacher's file or weights, A1902 (no such stage), or A1903 (shapes do not
        match).
        """
        types, teacher_types = infer(graph), self._teacher.open(graph, self.settings.pairs)
        for name in self.settings.stages:
            student_type, teacher_type = types[graph.outputs[name]], teacher_types[name]
            if _shape_without_channels(student_type) != _shape_without_channels(teacher_type):
                text = (
                    f"`{name}` of `{graph.name}` is {student_type}, and of the teacher {teacher_type}: they may "
                    "differ in channels alone"
                )
                raise fail("A1903", text, graph[graph.outputs[name]].span)

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Create the linear maps from student to teacher channels."""
        types, teacher_types = infer(graph), self._teacher.open(graph, self.settings.pairs)
        for name in self.settings.stages:
            student_type = types[graph.outputs[name]]
            max_channels = max(leaves(student_type.dims[student_type.channel_axis]))
            weight = torch.empty(teacher_types[name].channels, max_channels).normal_(
                0, max_channels**-0.5, generator=generator
            )
            self.maps.append(nn.Parameter(weight))

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return `weight` times the relative squared error, averaged over stages and over the batch."""
        return self._distances(outputs, batch).mean()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return `features`: the loss of each sample, summed over the samples of the batch."""
        return {"features": self._distances(outputs, batch).sum()}

    def _distances(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the weighted relative distance between student and teacher for each sample, [n]."""
        teacher_values, errors = self._teacher(batch), []
        for name, weight in zip(self.settings.stages, self.maps, strict=True):
            student, teacher = (_features_last(value[name]).float() for value in (outputs, teacher_values))
            difference = student @ weight[:, : student.shape[-1]].mT - teacher
            errors.append(difference.square().flatten(1).sum(1) / teacher.square().flatten(1).sum(1).clamp(min=1e-12))
        return self.settings.weight * torch.stack(errors).mean(0)


def _shape_without_channels(value: TensorType) -> tuple[object, ...]:
    """Return the shape with a placeholder in place of the number of channels."""
    return (*value.dims[: value.channel_axis], "channels", *value.dims[value.channel_axis + 1 :])


def _features_last(value: Tensor) -> Tensor:
    """Move the channel axis of feature maps [n, C, H, W] and volumes to the end: [n, ..., C].

    Other tensors are unchanged, since their channels are on the last axis already.
    """
    return value.movedim(1, -1) if value.dim() >= 4 else value
