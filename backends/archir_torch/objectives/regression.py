"""Numbers: a price, a series to come, keypoints, the corners of boxes."""

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
from archir_torch.objectives.supervised import Supervised, TaskSettings, form, place, unfit


class RegressionSettings(TaskSettings):
    """`loss` is the mean squared error, the mean absolute error, or Huber's, which is square up to `delta`."""

    loss: Literal["mse", "mae", "huber"] = "mse"
    delta: Positive = 1.0


@objective("regression")
class Regression(Supervised):
    """The distance of an output from numbers, of one shape but for axes of size 1."""

    model = RegressionSettings
    settings: RegressionSettings
    criterion, larger = "mse", False
    compares = "numbers"
    measures = (
        measures.SquaredError(), measures.RootSquaredError(), measures.AbsoluteError(), measures.Determination(),
    )  # fmt: skip

    def check(self, graph: Graph, data: Data) -> None:
        """Whether an output has as many numbers as a target."""
        target = self.target(data)
        for name, number in self.reads(graph).items():
            kind = infer(graph)[number]
            span = place(graph, name) if name in graph.outputs else None
            wanted = [size for size in target.shape[1:] if size != 1]
            if kind.varied or [size for size in kind.shape if size != 1] != wanted:
                text = f"targets are {form(target)}, but the output `{name}` of `{graph.name}` is {kind}"
                count = prod(target.shape[1:])
                raise unfit(text, span, f"linear({count}) makes as many numbers" if len(wanted) < 2 else None)

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """The output and the target, as float32 of one shape."""
        found, wanted = super().compared(outputs, batch)
        return found.float(), wanted.float().reshape(found.shape)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The mean over samples and numbers."""
        found, wanted = self.compared(outputs, batch)
        match self.settings.loss:
            case "mse":
                loss = F.mse_loss(found, wanted)
            case "mae":
                loss = F.l1_loss(found, wanted)
            case "huber":
                loss = F.huber_loss(found, wanted, delta=self.settings.delta)
        return self.settings.weight * loss
