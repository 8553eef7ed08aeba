"""Objectives with one class per position: pixels in segmentation masks, tagged tokens, the next token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.diagnostics.work import MAX_COUNT
from archir.ir.graph import Graph
from archir_torch.data import Data
from archir_torch.objectives import measures
from archir_torch.objectives.objective import Batch, Outputs, objective, output_shape
from archir_torch.objectives.supervised import (
    Supervised,
    TaskSettings,
    classes_hint,
    describe_target,
    output_span,
    target_error,
)

IGNORED_CLASS = -100
"""Class index of positions to ignore: the default `ignore_index` of torch's cross-entropy."""


class PositionSettings(TaskSettings):
    """Settings of objectives with one class per position.

    Targets that are negative or equal to `ignore` are ignored. `label_smoothing` is the probability that is spread
    uniformly over all classes.
    """

    ignore: int | None = Field(None, ge=-MAX_COUNT, le=MAX_COUNT)
    label_smoothing: float = Field(0.0, ge=0, lt=1)


@objective("tagging")
class Tagging(Supervised):
    """Cross-entropy of token logits [N, classes] with one class per token [N]."""

    model: ClassVar[type[PositionSettings]] = PositionSettings
    settings: PositionSettings
    criterion, larger = "accuracy", True
    compares = "classes"
    predicts = "classes"
    measures: tuple[measures.Measure, ...] = (measures.Accuracy(),)
    rank, classes_axis = 2, -1
    """Rank of outputs without the batch axis, and the class axis of outputs."""

    def check(self, graph: Graph, data: Data) -> None:
        """Check that output and target have the same positions, and that the output has a logit for every class.

        Raises ArchError (A1108, A1116).
        """
        target = self.target(data)
        for name in self.reads(graph):
            output_dims = output_shape(graph, name, self.rank)
            classes, span = output_dims[self.classes_axis], output_span(graph, name)
            positions = [size for axis, size in enumerate(output_dims) if axis != self.classes_axis % self.rank]
            if target.is_floating_point() or [*target.shape[1:]] != positions:
                text = (
                    f"targets are {describe_target(target)}, but the output `{name}` of `{graph.name}` has "
                    f"{positions} places"
                )
                raise target_error(text, span, "targets are integers, one for each place of the output")
            max_class = int(self._mask_ignored(target).max())
            if max_class >= classes:
                hint = classes_hint(graph, max_class + 1)
                text = f"targets go up to {max_class}, but the output `{name}` of `{graph.name}` has {classes} classes"
                raise fail("A1108", text, span, hint)

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return logits [n, classes, ...] and classes [n, ...]; classes are negative at ignored positions."""
        logits, classes = super().compared(outputs, batch)
        return logits.movedim(self.classes_axis, 1), self._mask_ignored(classes)

    def _mask_ignored(self, target: Tensor) -> Tensor:
        """Replace the class `ignore` in the settings by IGNORED_CLASS."""
        return (
            target
            if self.settings.ignore is None
            else target.masked_fill(target == self.settings.ignore, IGNORED_CLASS)
        )

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the mean loss over all positions that are not ignored."""
        return self.settings.weight * self.cross_entropy(*self.compared(outputs, batch))

    def cross_entropy(self, logits: Tensor, classes: Tensor) -> Tensor:
        """Return the mean cross-entropy over the positions that are not ignored; 0 if all are ignored."""
        valid = classes >= 0
        total = F.cross_entropy(
            logits.float(), classes.masked_fill(~valid, IGNORED_CLASS), reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )  # fmt: skip
        return total / valid.sum().clamp(min=1)

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return the sums of `loss` (cross-entropy over the positions that are not ignored) and of the measures."""
        pair = self.compared(outputs, batch)
        return {metric.name: metric.sums(*pair) for metric in (_CROSS_ENTROPY, *self.measures)}

    def figures(self, sums: Mapping[str, Tensor], samples: int) -> dict[str, float]:
        """Compute the value of each measure from its sums over all samples."""
        by_name = {metric.name: metric for metric in (_CROSS_ENTROPY, *self.measures)}
        return {name: by_name[name].figure(total, samples) for name, total in sums.items()}

    @property
    def directions(self) -> dict[str, bool]:
        """Directions of `loss` and the measures: True if larger is better."""
        return {"loss": False, **{metric.name: metric.larger for metric in self.measures}}


_CROSS_ENTROPY = measures.CrossEntropy()


@objective("next_token")
class NextToken(Tagging):
    """Language modelling: the class of each token is the next token."""

    criterion, larger = "perplexity", False
    measures = (measures.Perplexity(), measures.Bits(), measures.Accuracy())


class SegmentationSettings(PositionSettings):
    """Settings of `segmentation`.

    `loss` is the cross-entropy, the Dice loss (1 - Dice coefficient, averaged over classes, on the whole batch), or
    their sum.
    """

    loss: Literal["cross_entropy", "dice", "both"] = "cross_entropy"


@objective("segmentation")
class Segmentation(Tagging):
    """Semantic segmentation: logits [classes, H, W] and masks [H, W] of classes."""

    model = SegmentationSettings
    settings: SegmentationSettings
    criterion, larger = "miou", True
    measures = (measures.MeanIoU(), measures.PixelAccuracy())
    rank, classes_axis = 3, 0

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return logits [n, classes, H, W] and masks [n, H, W]."""
        logits, masks = Supervised.compared(self, outputs, batch)
        return logits, self._mask_ignored(masks)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the cross-entropy, the Dice loss or their sum, depending on the settings."""
        logits, masks = self.compared(outputs, batch)
        total = logits.new_zeros((), dtype=torch.float32)
        if self.settings.loss != "dice":
            total = total + self.cross_entropy(logits, masks)
        if self.settings.loss != "cross_entropy":
            total = total + _dice(logits, masks)
        return self.settings.weight * total


def _dice(logits: Tensor, masks: Tensor) -> Tensor:
    """Return the Dice loss: 1 - mean over classes of 2 |A and B| / (|A| + |B|), for probabilities A and masks B."""
    valid = (masks >= 0)[:, None]
    probabilities = logits.float().softmax(1) * valid
    one_hot = F.one_hot(masks.clamp(min=0), logits.shape[1]).movedim(-1, 1) * valid
    axes = [axis for axis in range(logits.dim()) if axis != 1]
    intersection, sums = (probabilities * one_hot).sum(axes), (probabilities + one_hot).sum(axes)
    return 1 - ((2 * intersection + 1) / (sums + 1)).mean()
