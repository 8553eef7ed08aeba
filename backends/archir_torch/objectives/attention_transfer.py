"""Attention transfer: where the maps of a teacher are strong, its student's should be.

Zagoruyko and Komodakis 2017; Li et al. (neural operator search), equations 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.utils.settings import NonNegative
from archir_torch.data import Data
from archir_torch.objectives.objective import Batch, Objective, Outputs, objective
from archir_torch.objectives.teacher import StageSettings, Teacher, stage


class TransferSettings(StageSettings):
    """`form` is the mean squared difference, or the norm of equation 6."""

    weight: NonNegative = 1e3
    form: Literal["squares", "eq6"] = "squares"


@objective("attention_transfer")
class AttentionTransfer(Objective):
    """Half the weight times the sum over stages of how far the attention maps of student and teacher are apart."""

    model = TransferSettings
    criterion = "transfer"
    larger = False

    def __init__(self, settings: TransferSettings, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings
        self._teacher = Teacher(settings, folder)

    @property
    def directions(self) -> dict[str, bool]:
        """`transfer`."""
        return {"transfer": False}

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The student's stages."""
        return {name: stage(graph, name) for name in self.settings.stages}

    def check(self, graph: Graph, data: Data) -> None:
        """Whether stages can be compared. Raises ArchError: what is wrong with the teacher's file or weights, or A1902,
        A1903."""
        types, taught = infer(graph), self._teacher.open(graph, self.settings.pairs)
        for name in self.settings.stages:
            number = graph.outputs[name]
            for whose, one in ((graph.name, types[number]), ("the teacher", taught[name])):
                if one.rank not in (2, 3):
                    text = f"attention is compared between maps or tokens, and `{name}` of `{whose}` is {one}"
                    raise fail("A1903", text, graph[number].span)
            if _comparable(types[number]) != _comparable(taught[name]):
                text = f"`{name}` is {types[number]}, and the teacher's {taught[name]}"
                raise fail("A1903", text, graph[number].span)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Half the weight times the sum over stages of the means over the batch."""
        return self._apart(outputs, batch).mean()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """`transfer`: the loss."""
        return {"transfer": self._apart(outputs, batch).sum()}

    def _apart(self, outputs: Outputs, batch: Batch) -> Tensor:
        """How far student and teacher are apart [n]."""
        taught = self._teacher(batch)
        total = batch.images.new_zeros(len(batch.images))
        for name in self.settings.stages:
            one, other = attention(*_alike(outputs[name], taught[name]))
            apart = one - other
            total = total + (apart.square().mean(1) if self.settings.form == "squares" else apart.norm(dim=1))
        return self.settings.weight / 2 * total


def attention(*values: Tensor) -> Iterator[Tensor]:
    """For each map [n, C, H, W] the sums of squares over channels, as vectors [n, H * W] of length 1; the same of
    tokens [n, N, D]."""
    for value in values:
        yield F.normalize(value.float().square().sum(1 if value.dim() == 4 else 2).flatten(1), dim=1)


def _comparable(value: TensorType) -> object:
    """What two values have alike if their attention can be compared: maps are averaged, tokens are as many."""
    return value.rank if value.rank == 3 else (value.rank, value.dims[0])


def _alike(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Two maps, of which the larger one was averaged to the size of the smaller one; tokens as they are."""
    if one.dim() == 3:
        return one, other
    height, width = (min(pair) for pair in zip(one.shape[2:], other.shape[2:], strict=True))
    return F.adaptive_avg_pool2d(one, (height, width)), F.adaptive_avg_pool2d(other, (height, width))
