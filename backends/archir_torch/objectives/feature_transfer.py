"""Feature transfer: values inside of a teacher, which its student should be able to tell by a linear map.

Romero et al. 2015 (FitNets), equation 3; as a share of the teacher's values, so that stages count alike.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import fail
from archir.diagrams.cases import leaves
from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir_torch.data import Data
from archir_torch.objectives.objective import Batch, Objective, Outputs, objective
from archir_torch.objectives.teacher import StageSettings, Teacher, stage


@objective("feature_transfer")
class FeatureTransfer(Objective):
    """The mean over stages of the squared difference between the teacher's values and a linear map of the student's,
    as a share of the teacher's squares.

    The maps are trained along, one for each stage; where a student has fewer channels than it may have, their part.
    """

    model = StageSettings
    criterion = "features"
    larger = False

    def __init__(self, settings: StageSettings, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings
        self._teacher = Teacher(settings, folder)
        self.maps = nn.ParameterList()

    @property
    def directions(self) -> dict[str, bool]:
        """`features`."""
        return {"features": False}

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The student's stages."""
        return {name: stage(graph, name) for name in self.settings.stages}

    def check(self, graph: Graph, data: Data) -> None:
        """Whether stages differ in channels alone. Raises ArchError: what is wrong with the teacher's file or weights,
        or A1902, A1903."""
        types, taught = infer(graph), self._teacher.open(graph, self.settings.pairs)
        for name in self.settings.stages:
            mine, its = types[graph.outputs[name]], taught[name]
            if _places(mine) != _places(its):
                text = (
                    f"`{name}` of `{graph.name}` is {mine}, and of the teacher {its}: they may differ in channels alone"
                )
                raise fail("A1903", text, graph[graph.outputs[name]].span)

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """The maps."""
        types, taught = infer(graph), self._teacher.open(graph, self.settings.pairs)
        for name in self.settings.stages:
            mine = types[graph.outputs[name]]
            most = max(leaves(mine.dims[mine.channel_axis]))
            weight = torch.empty(taught[name].channels, most).normal_(0, most**-0.5, generator=generator)
            self.maps.append(nn.Parameter(weight))

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The weight times the mean over stages and the batch."""
        return self._apart(outputs, batch).mean()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """`features`: the loss."""
        return {"features": self._apart(outputs, batch).sum()}

    def _apart(self, outputs: Outputs, batch: Batch) -> Tensor:
        """How far student and teacher are apart [n]."""
        taught, shares = self._teacher(batch), []
        for name, weight in zip(self.settings.stages, self.maps, strict=True):
            mine, its = (_features_last(value[name]).float() for value in (outputs, taught))
            apart = mine @ weight[:, : mine.shape[-1]].mT - its
            shares.append(apart.square().flatten(1).sum(1) / its.square().flatten(1).sum(1).clamp(min=1e-12))
        return self.settings.weight * torch.stack(shares).mean(0)


def _places(value: TensorType) -> tuple[object, ...]:
    """All dimensions but that of the channels."""
    return (*value.dims[: value.channel_axis], "channels", *value.dims[value.channel_axis + 1 :])


def _features_last(value: Tensor) -> Tensor:
    """Channels last [n, ..., C], also of maps [n, C, H, W] and volumes."""
    return value.movedim(1, -1) if value.dim() >= 4 else value
