"""Which class an image shows."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from archir.base.errors import fail
from archir.base.settings import NonNegative, Settings
from archir.ir.graph import Graph, NodeId
from archir_torch.data import Data
from archir_torch.objectives.objective import Batch, Objective, Outputs, output, shape

AUXILIARY = "auxiliary"
"""The output whose loss is added with a weight of its own (Szegedy et al. 2015, section 5)."""


class ClassificationSettings(Settings):
    """`label_smoothing` is the part of probability that all classes share; `auxiliary` the weight of that output."""

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    auxiliary: NonNegative = 0.0


class Classification(Objective):
    """Cross-entropy of the first output, by labels or by the probabilities of mixed images."""

    model = ClassificationSettings

    def __init__(self, settings: ClassificationSettings | None = None, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings or ClassificationSettings.model_validate({})

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The first output, and `auxiliary` if it has a weight."""
        name, number = next(iter(graph.outputs.items()))
        return {name: number} | ({AUXILIARY: output(graph, AUXILIARY)} if self.settings.auxiliary else {})

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Whether there are as many outputs as classes. Raises ArchError (A1108, A1903)."""
        for name in self.reads(graph):
            (found,) = shape(graph, name, 1)
            if found < len(data.classes):
                hint = f"try classes = {len(data.classes)}" if "classes" in graph.parameters else None
                text = f"there are {len(data.classes)} classes, but the output `{name}` of `{graph.name}` has {found}"
                raise fail("A1108", text, None, hint)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The mean cross-entropy, and that of the auxiliary output times its weight."""
        loss = self._entropy(_first(outputs), batch)
        if self.settings.auxiliary:
            loss = loss + self.settings.auxiliary * self._entropy(outputs[AUXILIARY], batch)
        return loss

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """`accuracy`, and `loss`: the cross-entropy of the labels, without smoothing."""
        logits = _first(outputs)
        right = (logits.argmax(1) == batch.labels).sum()
        return {"accuracy": right, "loss": F.cross_entropy(logits, batch.labels, reduction="sum")}

    def _entropy(self, logits: Tensor, batch: Batch) -> Tensor:
        targets = batch.labels
        if batch.targets is not None:
            targets = F.pad(batch.targets, (0, logits.shape[1] - batch.targets.shape[1]))
        return F.cross_entropy(logits, targets, label_smoothing=self.settings.label_smoothing)


def _first(outputs: Outputs) -> Tensor:
    return next(iter(outputs.values()))
