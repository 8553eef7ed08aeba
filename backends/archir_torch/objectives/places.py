"""A class for every place: pixels of masks, tokens with tags, the token that comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.diagnostics.work import MOST
from archir.ir.graph import Graph
from archir_torch.data import Data
from archir_torch.objectives import measures
from archir_torch.objectives.objective import Batch, Outputs, objective, shape
from archir_torch.objectives.supervised import Supervised, TaskSettings, form, place, unfit, wider

LEFT_OUT = -100


class PlaceSettings(TaskSettings):
    """Places whose target is `ignore`, or below 0, are left out; `label_smoothing` is the part of probability that all
    classes share."""

    ignore: int | None = Field(None, ge=-MOST, le=MOST)
    label_smoothing: float = Field(0.0, ge=0, lt=1)


@objective("tagging")
class Tagging(Supervised):
    """Cross-entropy of tokens [N, classes] with a class each [N]."""

    model: ClassVar[type[PlaceSettings]] = PlaceSettings
    settings: PlaceSettings
    criterion, larger = "accuracy", True
    compares = "classes"
    measures: tuple[measures.Measure, ...] = (measures.Accuracy(),)
    rank, classes_axis = 2, -1
    """The rank of outputs, and the axis of their classes."""

    def check(self, graph: Graph, data: Data) -> None:
        """Whether an output has the places of a target, and logits for all its classes."""
        target = self.target(data)
        for name in self.reads(graph):
            kind = shape(graph, name, self.rank)
            classes, span = kind[self.classes_axis], place(graph, name)
            places = [size for axis, size in enumerate(kind) if axis != self.classes_axis % self.rank]
            if target.is_floating_point() or [*target.shape[1:]] != places:
                text = f"targets are {form(target)}, but the output `{name}` of `{graph.name}` has {places} places"
                raise unfit(text, span, "targets are integers, one for each place of the output")
            most = int(self._known(target).max())
            if most >= classes:
                hint = wider(graph, most + 1)
                text = f"targets go up to {most}, but the output `{name}` of `{graph.name}` has {classes} classes"
                raise fail("A1108", text, span, hint)

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits [n, classes, ...] and classes [n, ...], below 0 where they are left out."""
        found, wanted = super().compared(outputs, batch)
        return found.movedim(self.classes_axis, 1), self._known(wanted)

    def _known(self, target: Tensor) -> Tensor:
        return target if self.settings.ignore is None else target.masked_fill(target == self.settings.ignore, LEFT_OUT)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The mean over all places that are not left out."""
        return self.settings.weight * self.entropy(*self.compared(outputs, batch))

    def entropy(self, found: Tensor, wanted: Tensor) -> Tensor:
        """The mean cross-entropy; 0 if all is left out."""
        known = wanted >= 0
        total = F.cross_entropy(
            found.float(), wanted.masked_fill(~known, LEFT_OUT), reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )  # fmt: skip
        return total / known.sum().clamp(min=1)

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """`loss`, the cross-entropy of all places together, and the measures."""
        pair = self.compared(outputs, batch)
        return {one.name: one.sums(*pair) for one in (_ENTROPY, *self.measures)}

    def figures(self, sums: Mapping[str, Tensor], samples: int) -> dict[str, float]:
        """What the sums come to."""
        known = {one.name: one for one in (_ENTROPY, *self.measures)}
        return {name: known[name].figure(total, samples) for name, total in sums.items()}

    @property
    def directions(self) -> dict[str, bool]:
        """Those of the measures."""
        return {"loss": False, **{one.name: one.larger for one in self.measures}}


_ENTROPY = measures.Entropy()


@objective("next_token")
class NextToken(Tagging):
    """The same, the class of a token being the token that comes after it."""

    criterion, larger = "perplexity", False
    measures = (measures.Perplexity(), measures.Bits(), measures.Accuracy())


class SegmentationSettings(PlaceSettings):
    """`loss` is cross-entropy, 1 - Dice (the mean over classes, of the batch together), or the sum of both."""

    loss: Literal["cross_entropy", "dice", "both"] = "cross_entropy"


@objective("segmentation")
class Segmentation(Tagging):
    """Maps [classes, H, W] with masks [H, W]."""

    model = SegmentationSettings
    settings: SegmentationSettings
    criterion, larger = "miou", True
    measures = (measures.MeanIoU(), measures.PixelAccuracy())
    rank, classes_axis = 3, 0

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits [n, classes, H, W] as they are, and masks."""
        found, wanted = Supervised.compared(self, outputs, batch)
        return found, self._known(wanted)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """What the settings say."""
        found, wanted = self.compared(outputs, batch)
        total = found.new_zeros((), dtype=torch.float32)
        if self.settings.loss != "dice":
            total = total + self.entropy(found, wanted)
        if self.settings.loss != "cross_entropy":
            total = total + _dice(found, wanted)
        return self.settings.weight * total


def _dice(found: Tensor, wanted: Tensor) -> Tensor:
    """1 minus the mean over classes of 2 |A and B| / (|A| + |B|), of probabilities and masks."""
    known = (wanted >= 0)[:, None]
    shares = found.float().softmax(1) * known
    true = F.one_hot(wanted.clamp(min=0), found.shape[1]).movedim(-1, 1) * known
    axes = [axis for axis in range(found.dim()) if axis != 1]
    both, all_of = (shares * true).sum(axes), (shares + true).sum(axes)
    return 1 - ((2 * both + 1) / (all_of + 1)).mean()
