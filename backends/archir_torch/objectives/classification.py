"""Which class an image shows."""

from __future__ import annotations

from typing import Annotated

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId
from archir.utils.settings import Count, Many, NonNegative
from archir_torch.data import Data
from archir_torch.objectives.measures import TopAccuracy
from archir_torch.objectives.objective import Batch, Outputs, objective, output, shape
from archir_torch.objectives.supervised import Supervised, TaskSettings, form, place, unfit, wider

AUXILIARY = "auxiliary"
"""The output whose loss is added with a weight of its own (Szegedy et al. 2015, section 5)."""


class ClassificationSettings(TaskSettings):
    """`label_smoothing` is the part of probability that all classes share; `auxiliary` the weight of that output; `top`
    says how many of the largest logits a label may be among, for further measures: `top = [5]`."""

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    auxiliary: NonNegative = 0.0
    top: Annotated[tuple[Count, ...], Many] = ()


@objective("classification")
class Classification(Supervised):
    """Cross-entropy of the first output, by labels or by the probabilities of mixed images."""

    model = ClassificationSettings
    settings: ClassificationSettings
    criterion, larger = "accuracy", True
    compares = "classes"

    def begin(self) -> None:
        """What is measured beside the accuracy."""
        self.measures = tuple(TopAccuracy(count) for count in self.settings.top)

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The output, and `auxiliary` if it has a weight."""
        return super().reads(graph) | ({AUXILIARY: output(graph, AUXILIARY)} if self.settings.auxiliary else {})

    def check(self, graph: Graph, data: Data) -> None:
        """Whether targets are labels, and there are as many outputs as classes. Raises ArchError (A1108, A1116,
        A1903)."""
        labels = self.target(data)
        first = place(graph, next(iter(self.reads(graph))))
        if labels.is_floating_point() or labels.dim() != 1:
            raise unfit(
                f"classes are integers, one for each sample, and targets are {form(labels)}", first, _hint(labels)
            )
        if int(labels.min()) < 0:
            raise unfit(f"classes are integers from 0, and targets hold {int(labels.min())}", first, _LEFT_OUT)
        count = max(int(labels.max()) + 1, len(data.classes))
        for name in self.reads(graph):
            (found,) = shape(graph, name, 1)
            if found < count:
                hint = wider(graph, count)
                if int(labels.min()) == 1 and found == count - 1:
                    hint = "labels start at 0, and those of the data start at 1: subtract 1"
                text = f"there are {count} classes, but the output `{name}` of `{graph.name}` has {found}"
                raise fail("A1108", text, place(graph, name), hint)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The mean cross-entropy, and that of the auxiliary output times its weight."""
        loss = self._entropy(self.compared(outputs, batch)[0], batch)
        if self.settings.auxiliary:
            loss = loss + self.settings.auxiliary * self._entropy(outputs[AUXILIARY], batch)
        return loss if self.settings.weight == 1 else self.settings.weight * loss

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """`accuracy`, and `loss`: the cross-entropy of the labels, without smoothing."""
        logits, labels = self.compared(outputs, batch)
        right = (logits.argmax(1) == labels).sum()
        found = {"accuracy": right, "loss": F.cross_entropy(logits, labels, reduction="sum")}
        return found | {one.name: one.sums(logits, labels) for one in self.measures}

    @property
    def directions(self) -> dict[str, bool]:
        """`accuracy`, `loss`, and those of `top`."""
        return {"accuracy": True, "loss": False, **{one.name: one.larger for one in self.measures}}

    def _entropy(self, logits: Tensor, batch: Batch) -> Tensor:
        targets = batch.targets[self.settings.target] if self.settings.target else batch.labels
        if batch.mixed is not None:
            targets = F.pad(batch.mixed, (0, logits.shape[1] - batch.mixed.shape[1]))
        return F.cross_entropy(logits, targets, label_smoothing=self.settings.label_smoothing)


_LEFT_OUT = "-1 often means that labels were left out: that part cannot be used"


def _hint(target: Tensor) -> str:
    kind = "regression" if target.is_floating_point() else {2: "multilabel"}.get(target.dim(), "segmentation")
    return f'these are targets for objective = {{ kind = "{kind}" }}'
