"""Attention transfer: trains the student to have the same attention maps as a teacher.

Sources: Zagoruyko and Komodakis 2017; Li et al. (neural operator search), equations 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.utils.settings import NonNegative
from archir_torch.data import Data
from archir_torch.objectives.objective import Batch, Outputs, objective
from archir_torch.objectives.teacher import StageObjective, StageSettings


class TransferSettings(StageSettings):
    """Settings of `attention_transfer`.

    `form` is the distance between attention maps: `squares` for the mean squared difference, `eq6` for the norm in
    equation 6.
    """

    weight: NonNegative = 1e3
    form: Literal["squares", "eq6"] = "squares"


@objective("attention_transfer")
class AttentionTransfer(StageObjective):
    """Loss that compares attention maps: `weight` / 2 times the sum over stages of the student-teacher distance."""

    model = TransferSettings
    criterion = "transfer"
    settings: TransferSettings

    def check(self, graph: Graph, data: Data) -> None:
        """Check that the stages of the student can be compared with those of the teacher.

        Raises ArchError: errors in the teacher's file or weights, A1902 (no such stage), or A1903 (shapes do not
        match).
        """
        types, teacher_types = infer(graph), self._teacher.open(graph, self.settings.pairs)
        for name in self.settings.stages:
            node = graph.outputs[name]
            for network, value_type in ((graph.name, types[node]), ("the teacher", teacher_types[name])):
                if value_type.rank not in (2, 3):
                    message = f"attention transfer needs maps or tokens, but `{name}` of `{network}` is {value_type}"
                    raise fail("A1903", message, graph[node].span)
            if _comparison_key(types[node]) != _comparison_key(teacher_types[name]):
                message = (
                    f"`{name}` is {types[node]}, but the teacher's is {teacher_types[name]}: they cannot be compared"
                )
                raise fail("A1903", message, graph[node].span)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the loss, averaged over the batch."""
        return self._distances(outputs, batch).mean()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return `transfer`: the loss of each sample, summed over the samples of the batch."""
        return {"transfer": self._distances(outputs, batch).sum()}

    def _distances(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the weighted distance between student and teacher for each sample, [n]."""
        teacher_values = self._teacher(batch)
        total = batch.images.new_zeros(len(batch.images))
        for name in self.settings.stages:
            student_map, teacher_map = attention_maps(*_same_size(outputs[name], teacher_values[name]))
            difference = student_map - teacher_map
            total = total + (difference.square().mean(1) if self.settings.form == "squares" else difference.norm(dim=1))
        return self.settings.weight / 2 * total


def attention_maps(*values: Tensor) -> Iterator[Tensor]:
    """Yield the attention map of each tensor: its squares summed over channels, scaled to Euclidean length 1.

    For feature maps [n, C, H, W], the result is [n, H * W]; for tokens [n, N, D], it is [n, N].
    """
    for value in values:
        yield F.normalize(value.float().square().sum(1 if value.dim() == 4 else 2).flatten(1), dim=1)


def _comparison_key(value: TensorType) -> object:
    """Return the properties that must be equal for attention maps to be comparable: the rank, and for tokens their
    number."""
    return value.rank if value.rank == 3 else (value.rank, value.dims[0])


def _same_size(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Average-pool the larger of two feature maps [n, C, H, W] to the size of the smaller one; tokens are returned
    unchanged."""
    if left.dim() == 3:
        return left, right
    height, width = (min(pair) for pair in zip(left.shape[2:], right.shape[2:], strict=True))
    return F.adaptive_avg_pool2d(left, (height, width)), F.adaptive_avg_pool2d(right, (height, width))
