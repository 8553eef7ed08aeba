"""Measures on held-out samples.

Measures are computed from sums over samples, so that the result does not depend on the batching. A measure
compares an output with a target, both for a batch. Class measures treat each position separately: outputs are [n,
classes, ...], targets [n, ...]; targets below 0 are ignored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.plugins.registry import Registry

TargetKind = Literal["classes", "labels", "numbers"]
"""Kind of a target: one class per sample or position ("classes"), several binary labels ("labels"), or
"numbers"."""
_KIND_NAMES = {"classes": "classes", "labels": "several labels", "numbers": "numbers"}


class Measure(ABC):
    """Base class of measures, which compute a number from outputs and targets."""

    name: str
    larger: ClassVar[bool] = False
    """True if a larger value is better."""
    compares: ClassVar[TargetKind | None] = None
    """Kind of target for which the measure is defined; None for all kinds."""
    needs_all_samples: ClassVar[bool] = False
    """True if the value cannot be computed from sums over samples; an example is average precision.

    `sums` then returns a row for each sample in the batch [n, ...], and `figure` gets the rows of all samples.
    """

    @abstractmethod
    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return sums over the samples in a batch. Their shape must be the same for all batches."""

    def require_same_shape(self, output: Tensor, target: Tensor) -> None:
        """Raise ArchError (A1904) unless output and target have the same shape; they are never broadcast."""
        if output.shape != target.shape:
            shapes = f"{list(output.shape)} with targets {list(target.shape)}"
            raise fail("A1904", f"`{self.name}` compares outputs {shapes}: their shapes must be equal")

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the value of the measure from the sums over all samples; by default the mean over samples."""
        return float(sums) / samples


MEASURES: Registry[str, Measure] = Registry("measure", "measures")
"""Registry of the measures that a recipe can name, for any task."""

M_ = TypeVar("M_", bound=type[Measure])


def measure(kind: M_) -> M_:
    """Decorator that registers a class as the measure of its `name`. Its constructor must take no arguments."""
    instance = kind()
    MEASURES.register(instance.name, instance, kind)
    return kind


def measures_of(names: Sequence[str], compared: TargetKind | None = None) -> tuple[Measure, ...]:
    """Return the measures with these names, for targets of the kind `compared`.

    Raises ArchError (A1904) if no measure has one of the names, or if the measure is defined for another kind of
    target.
    """
    for name in names:
        measure = MEASURES.find(name)
        if measure is None:
            raise fail("A1904", f"there is no measure `{name}`", None, MEASURES.hint(name))
        kind = measure.compares
        if kind is not None and compared is not None and kind != compared:
            suitable = [f"`{other}`" for other in MEASURES if MEASURES[other].compares in (None, compared)]
            text = f"`{name}` compares {_KIND_NAMES[kind]}, and targets are {_KIND_NAMES[compared]}"
            raise fail("A1904", text, None, f"measures of these are {', '.join(suitable)}")
    return tuple(MEASURES[name] for name in names)


class Ratio(Measure):
    """Base class of measures that are a quotient of two sums."""

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the first sum divided by the second; NaN if the second is 0."""
        total, count = sums.tolist()
        return float(total) / count if count else math.nan


# measures of classes


class TopAccuracy(Measure):
    """Fraction of samples whose label is among the `count` largest logits; for `count` = 5 it is named
    `top5_accuracy`."""

    larger = True
    compares = "classes"

    def __init__(self, count: int) -> None:
        self.count, self.name = count, f"top{count}_accuracy"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the number of samples whose label is among the `count` largest logits."""
        best = output.topk(min(self.count, output.shape[1]), 1).indices
        return (best == target[:, None]).any(1).sum()


class CrossEntropy(Ratio):
    """Mean cross-entropy over all positions that are not ignored."""

    name = "loss"
    compares = "classes"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the summed cross-entropy, and the number of positions that are not ignored."""
        valid = target >= 0
        total = F.cross_entropy(output.float(), target.masked_fill(~valid, -100), reduction="sum")
        return torch.stack([total.double(), valid.sum().double()])


@measure
class Perplexity(CrossEntropy):
    """Exponential of the mean cross-entropy."""

    name = "perplexity"

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return exp(mean cross-entropy), or infinity on overflow."""
        mean = super().figure(sums, samples)
        return math.inf if mean >= 700 else math.exp(mean)


@measure
class Bits(CrossEntropy):
    """Mean cross-entropy in bits instead of nats; for byte tokens, this is bits per byte."""

    name = "bits"

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the mean cross-entropy in nats divided by ln 2."""
        return super().figure(sums, samples) / math.log(2)


@measure
class Accuracy(Ratio):
    """Fraction of positions, excluding ignored ones, at which the target class has the largest logit."""

    name, larger = "accuracy", True
    compares = "classes"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the number of correct positions, and the number of positions that are not ignored."""
        valid = target >= 0
        return torch.stack([((output.argmax(1) == target) & valid).sum(), valid.sum()]).double()


@measure
class PixelAccuracy(Accuracy):
    """Fraction of pixels, excluding ignored ones, at which the target class has the largest logit."""

    name = "pixel_accuracy"


@measure
class MeanIoU(Measure):
    """Intersection over union, averaged over the classes that occur in targets or predictions."""

    name, larger = "miou", True
    compares = "classes"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the confusion matrix [classes, classes], with targets as rows and predictions as columns."""
        classes = output.shape[1]
        pairs = torch.where(target >= 0, target * classes + output.argmax(1), classes * classes).flatten()
        counts = torch.zeros(classes * classes + 1, dtype=torch.float64, device=output.device)
        # ignored positions go to an extra bin: selecting the valid ones would wait for the GPU
        counts.scatter_add_(0, pairs, torch.ones_like(pairs, dtype=torch.float64))
        return counts[:-1].reshape(classes, classes)

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the mean IoU from the confusion matrix over all samples."""
        intersection = sums.diagonal()
        union = sums.sum(0) + sums.sum(1) - intersection
        return float((intersection[union > 0] / union[union > 0]).mean()) if bool((union > 0).any()) else math.nan


# measures of several labels: logits, and targets of zeros and ones, both [n, labels]


@measure
class F1(Measure):
    """Micro-averaged F1 score, 2 tp / (2 tp + fp + fn), over all labels. A label with a logit above 0 counts as
    predicted."""

    name, larger = "f1", True
    compares = "labels"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the numbers of true positives, false positives and false negatives."""
        self.require_same_shape(output, target)
        predicted, actual = output > 0, target > 0.5
        return torch.stack(
            [(predicted & actual).sum(), (predicted & ~actual).sum(), (~predicted & actual).sum()]
        ).double()

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the F1 score; 1 if there are neither true labels nor predicted ones."""
        true_positives, false_positives, false_negatives = sums.tolist()
        return (
            2 * true_positives / (2 * true_positives + false_positives + false_negatives)
            if true_positives + false_positives + false_negatives
            else 1.0
        )


class LabelAccuracy(Measure):
    """Fraction of correctly predicted binary labels, averaged over samples."""

    name, larger = "accuracy", True
    compares = "labels"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the sum over samples of the fraction of correct labels."""
        self.require_same_shape(output, target)
        return ((output > 0) == (target > 0.5)).double().mean(1).sum()


@measure
class ExactMatch(Measure):
    """Fraction of samples for which all labels are predicted correctly."""

    name, larger = "exact", True
    compares = "labels"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the number of samples for which all labels are correct."""
        self.require_same_shape(output, target)
        return ((output > 0) == (target > 0.5)).all(1).sum()


@measure
class MeanAveragePrecision(Measure):
    """Average precision, averaged over labels: the precision at each logit threshold, weighted by the increase in
    recall.

    Samples with equal logits form a single threshold. Labels that no sample has are left out.
    """

    name, larger = "mean_average_precision", True
    compares = "labels"
    needs_all_samples = True

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the logits and labels of each sample, [n, 2, labels]."""
        self.require_same_shape(output, target)
        return torch.stack([output.double(), (target > 0.5).double()], 1)

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the mean of the average precision over labels, from the rows of all samples."""
        precisions = [_average_precision(*label) for label in sums.permute(2, 1, 0) if label[1].any()]
        return sum(precisions) / len(precisions) if precisions else math.nan


def _average_precision(logits: Tensor, true: Tensor) -> float:
    """Return the average precision for one label, from logits [n] and true labels [n]."""
    order = logits.argsort(descending=True)
    logits, hits = logits[order], true[order].cumsum(0)
    steps = torch.cat([logits[1:] != logits[:-1], torch.ones(1, dtype=torch.bool)]).nonzero()[:, 0]
    hits_at_step = hits[steps]
    new_hits = hits_at_step.diff(prepend=hits_at_step.new_zeros(1))
    return float((new_hits * hits_at_step / (steps + 1)).sum() / hits_at_step[-1])


# measures of numbers: outputs and targets [n, ...] of the same shape


@measure
class SquaredError(Measure):
    """Mean squared error."""

    name = "mse"
    compares = "numbers"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the sum over samples of the mean squared error of a sample."""
        self.require_same_shape(output, target)
        return (output - target).double().square().reshape(len(output), -1).mean(1).sum()


@measure
class RootSquaredError(SquaredError):
    """Root of the mean squared error."""

    name = "rmse"

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the square root of the mean squared error over all samples."""
        return math.sqrt(super().figure(sums, samples))


@measure
class AbsoluteError(Measure):
    """Mean absolute error."""

    name = "mae"
    compares = "numbers"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the sum over samples of the mean absolute error of a sample."""
        self.require_same_shape(output, target)
        return (output - target).double().abs().reshape(len(output), -1).mean(1).sum()


@measure
class Determination(Measure):
    """Coefficient of determination R^2, averaged over the numbers in a target.

    For each number, R^2 is 1 - sum of squared errors / sum of squared deviations of the targets from their mean.
    """

    name, larger = "r2", True
    compares = "numbers"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Return sums over samples for each number in a target, [3, numbers]: squared errors, targets, squared
        targets."""
        self.require_same_shape(output, target)
        x, y = (each.double().reshape(len(each), -1) for each in (output, target))
        return torch.stack([(x - y).square().sum(0), y.sum(0), y.square().sum(0)])

    def figure(self, sums: Tensor, samples: int) -> float:
        """Return the mean R^2 over the numbers whose targets vary between samples; NaN if no targets vary."""
        errors, total, squares = sums
        deviations = squares - total.square() / samples
        varies = deviations > 1e-12 * squares.clamp(min=1e-300)
        return float((1 - errors[varies] / deviations[varies]).mean()) if bool(varies.any()) else math.nan
