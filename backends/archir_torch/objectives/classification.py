"""Image classification: cross-entropy with one class per sample."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId
from archir.utils.settings import Count, ListAsTuple, NonNegative
from archir_torch.data import Data, Split
from archir_torch.objectives.measures import TopAccuracy
from archir_torch.objectives.objective import Batch, Outputs, objective, output_node, output_shape
from archir_torch.objectives.supervised import (
    Supervised,
    TaskSettings,
    classes_hint,
    describe_target,
    output_span,
    target_error,
)

AUXILIARY = "auxiliary"
"""Name of the output of an auxiliary classifier, whose weighted loss is added (Szegedy et al. 2015, section 5)."""


class ClassificationSettings(TaskSettings):
    """Settings of `classification`.

    `label_smoothing` is the probability that is spread uniformly over all classes. `auxiliary` is the weight of the
    loss of the output `auxiliary`. `top` lists the numbers k for which top-k accuracy is measured, such as `top = [5]`.
    """

    label_smoothing: float = Field(0.0, ge=0, lt=1)
    auxiliary: NonNegative = 0.0
    top: Annotated[tuple[Count, ...], ListAsTuple] = ()


@objective("classification")
class Classification(Supervised):
    """Cross-entropy of the first output with class labels, or with class probabilities after mixup or CutMix."""

    model = ClassificationSettings
    settings: ClassificationSettings
    criterion, larger = "accuracy", True
    compares = "classes"
    predicts = "classes"

    def configure(self) -> None:
        """Add the top-k accuracies in the settings to the measures."""
        self.measures = tuple(TopAccuracy(count) for count in self.settings.top)

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the node of the output to compare with the labels, and that of `auxiliary` if its loss is used."""
        return super().reads(graph) | ({AUXILIARY: output_node(graph, AUXILIARY)} if self.settings.auxiliary else {})

    def check(self, graph: Graph, data: Data) -> None:
        """Check that the targets are class labels, and that the outputs have a logit for every class.

        Raises ArchError (A1108, A1116, A1903).
        """
        labels = self.target(data)
        span = output_span(graph, next(iter(self.reads(graph))))
        if labels.is_floating_point() or labels.dim() != 1:
            raise target_error(
                f"classes are integers, one for each sample, and targets are {describe_target(labels)}",
                span,
                _other_objective_hint(data.train),
            )
        if int(labels.min()) < 0:
            raise target_error(
                f"classes are integers from 0, and targets hold {int(labels.min())}", span, _NEGATIVE_HINT
            )
        training, held_out = labels[: len(data.train)], labels[len(data.train) :]
        if not torch.isin(held_out, training).any():
            text = "no class of the held-out samples occurs in the training samples"
            raise target_error(text, span, 'with `split = "classes"`, use the objective `retrieval`')
        count = max(int(labels.max()) + 1, len(data.classes))
        for name in self.reads(graph):
            (width,) = output_shape(graph, name, 1)
            if width < count:
                hint = classes_hint(graph, count)
                if int(labels.min()) == 1 and width == count - 1:
                    hint = "labels start at 0, and those of the data start at 1: subtract 1"
                text = f"there are {count} classes, but the output `{name}` of `{graph.name}` has {width}"
                raise fail("A1108", text, output_span(graph, name), hint)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the mean cross-entropy, plus the weighted cross-entropy of the auxiliary output if there is one."""
        loss = self._entropy(self.compared(outputs, batch)[0], batch)
        if self.settings.auxiliary:
            loss = loss + self.settings.auxiliary * self._entropy(outputs[AUXILIARY], batch)
        return loss if self.settings.weight == 1 else self.settings.weight * loss

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return sums over samples of `accuracy`, `loss` (cross-entropy without label smoothing) and the top-k
        accuracies."""
        logits, labels = self.compared(outputs, batch)
        correct = (logits.argmax(1) == labels).sum()
        sums = {"accuracy": correct, "loss": F.cross_entropy(logits, labels, reduction="sum")}
        return sums | {metric.name: metric.sums(logits, labels) for metric in self.measures}

    @property
    def directions(self) -> dict[str, bool]:
        """Directions of `accuracy`, `loss` and the top-k accuracies: True if larger is better."""
        return {"accuracy": True, "loss": False, **{metric.name: metric.larger for metric in self.measures}}

    def _entropy(self, logits: Tensor, batch: Batch) -> Tensor:
        targets = batch.targets[self.settings.target] if self.settings.target else batch.labels
        if batch.mixed is not None:
            targets = F.pad(batch.mixed, (0, logits.shape[1] - batch.mixed.shape[1]))
        return F.cross_entropy(logits, targets, label_smoothing=self.settings.label_smoothing)


_NEGATIVE_HINT = "-1 often marks samples without a label: leave these samples out"


def _other_objective_hint(samples: Split) -> str:
    """Return the hint that names a suitable objective for targets that are not class labels."""
    target, inputs = samples.labels, samples.pixels
    kind = "segmentation"
    if target.is_floating_point():
        kind = "regression"
    elif (
        target.dim() == 2
        and isinstance(inputs, Tensor)
        and inputs.shape == target.shape
        and not inputs.is_floating_point()
    ):
        kind = "next_token" if torch.equal(inputs[:, 1:], target[:, :-1]) else "tagging"
    elif target.dim() == 2:
        kind = "multilabel"
    return f'these are targets for objective = {{ kind = "{kind}" }}, or `--objective {kind}`'
