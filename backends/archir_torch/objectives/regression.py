"""Regression of numbers, for example prices, time series, keypoints or corners of boxes."""

from __future__ import annotations

from math import prod
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir.utils.settings import Positive
from archir_torch.data import Data
from archir_torch.objectives import measures
from archir_torch.objectives.objective import Batch, Outputs, objective
from archir_torch.objectives.supervised import Supervised, TaskSettings, describe_target, output_span, target_error


class RegressionSettings(TaskSettings):
    """Settings of `regression`.

    `loss` is the mean squared error, the mean absolute error, or the Huber loss, which is quadratic for errors up to
    `delta` and linear above.
    """

    loss: Literal["mse", "mae", "huber"] = "mse"
    delta: Positive = 1.0


@objective("regression")
class Regression(Supervised):
    """Distance between an output and target numbers. Their shapes must be equal up to axes of size 1."""

    model = RegressionSettings
    settings: RegressionSettings
    criterion, larger = "mse", False
    compares = "numbers"
    measures = (
        measures.SquaredError(), measures.RootSquaredError(), measures.AbsoluteError(), measures.Determination(),
    )  # fmt: skip

    def check(self, graph: Graph, data: Data) -> None:
        """Check that output and target have equally many numbers. Raises ArchError (A1116) if they do not."""
        target = self.target(data)
        for name, number in self.reads(graph).items():
            output_type = infer(graph)[number]
            span = output_span(graph, name) if name in graph.outputs else None
            target_sizes = [size for size in target.shape[1:] if size != 1]
            if output_type.is_varying or [size for size in output_type.shape if size != 1] != target_sizes:
                text = (
                    f"targets are {describe_target(target)}, but the output `{name}` of `{graph.name}` is {output_type}"
                )
                count = prod(target.shape[1:])
                raise target_error(
                    text, span, f"linear({count}) makes as many numbers" if len(target_sizes) < 2 else None
                )

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return output and target as float32 tensors of the same shape."""
        prediction, target = super().compared(outputs, batch)
        return prediction.float(), target.float().reshape(prediction.shape)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the loss, averaged over samples and numbers."""
        prediction, target = self.compared(outputs, batch)
        match self.settings.loss:
            case "mse":
                loss = F.mse_loss(prediction, target)
            case "mae":
                loss = F.l1_loss(prediction, target)
            case "huber":
                loss = F.huber_loss(prediction, target, delta=self.settings.delta)
        return self.settings.weight * loss
