"""What is measured: sums over samples, so that figures are exact however samples are parted, and what the sums come to.

A measure compares an output with a target, both of a batch. Classes are compared place by place: outputs are
[n, classes, ...], targets [n, ...], of which those below 0 are left out.
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

Compared = Literal["classes", "labels", "numbers"]
"""What targets are: a class, at every place if there are several; several labels, zeros and ones; or numbers."""
_FORMS = {"classes": "classes", "labels": "several labels", "numbers": "numbers"}


class Measure(ABC):
    """A figure of an output and a target."""

    name: str
    larger: ClassVar[bool] = False
    """Whether more of it is better."""
    compares: ClassVar[Compared | None] = None
    """The targets that it is for, if not for all."""
    whole: ClassVar[bool] = False
    """Whether it is no function of sums: `sums` then gives a row for each sample of a batch [n, ...], and `figure` has
    those of all samples."""

    @abstractmethod
    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Sums over the samples of a batch, of one shape for all batches."""

    def require_alike(self, output: Tensor, target: Tensor) -> None:
        """Raise ArchError (A1904) unless both have one shape: nothing is repeated for the other."""
        if output.shape != target.shape:
            forms = f"{list(output.shape)} with targets {list(target.shape)}"
            raise fail("A1904", f"`{self.name}` compares outputs {forms}, which are not of one shape")

    def figure(self, sums: Tensor, samples: int) -> float:
        """What the sums over all samples come to: their mean, unless a measure says otherwise."""
        return float(sums) / samples


MEASURES: Registry[str, Measure] = Registry("measure", "measures")
"""Those that any task can be told to measure, by name."""

M_ = TypeVar("M_", bound=type[Measure])


def measure(kind: M_) -> M_:
    """Register a class, which is made without arguments, as the measure of its `name`."""
    made = kind()
    MEASURES.register(made.name, made, kind)
    return kind


def measures_of(names: Sequence[str], compared: Compared | None = None) -> tuple[Measure, ...]:
    """Measures by name. Raises ArchError (A1904) for one that there is not, or that is not for what is `compared`."""
    for name in names:
        if name not in MEASURES:
            raise fail("A1904", f"there is no measure `{name}`", None, MEASURES.hint(name))
        own = MEASURES[name].compares
        if own is not None and compared is not None and own != compared:
            fitting = [f"`{other}`" for other in MEASURES if MEASURES[other].compares in (None, compared)]
            text = f"`{name}` compares {_FORMS[own]}, and targets are {_FORMS[compared]}"
            raise fail("A1904", text, None, f"measures of these are {', '.join(fitting)}")
    return tuple(MEASURES[name] for name in names)


class Ratio(Measure):
    """A figure that is one sum over another one."""

    def figure(self, sums: Tensor, samples: int) -> float:
        """The first sum over the second."""
        total, count = sums.tolist()
        return float(total) / count if count else math.nan


# of classes


class TopAccuracy(Measure):
    """The part of samples whose label is among so many of the largest logits: `top5_accuracy`."""

    larger = True
    compares = "classes"

    def __init__(self, count: int) -> None:
        self.count, self.name = count, f"top{count}_accuracy"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """How many."""
        best = output.topk(min(self.count, output.shape[1]), 1).indices
        return (best == target[:, None]).any(1).sum()


class Entropy(Ratio):
    """The mean cross-entropy of places that are not left out."""

    name = "loss"
    compares = "classes"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Its sum, and the number of places."""
        known = target >= 0
        total = F.cross_entropy(output.float(), target.masked_fill(~known, -100), reduction="sum")
        return torch.stack([total.double(), known.sum().double()])


@measure
class Perplexity(Entropy):
    """The exponential of the mean cross-entropy."""

    name = "perplexity"

    def figure(self, sums: Tensor, samples: int) -> float:
        """e to the mean, infinite where that is beyond numbers."""
        mean = super().figure(sums, samples)
        return math.exp(mean) if mean < 700 else math.inf


@measure
class Bits(Entropy):
    """The mean cross-entropy in bits: of bytes, bits per byte."""

    name = "bits"

    def figure(self, sums: Tensor, samples: int) -> float:
        """Over the logarithm of 2."""
        return super().figure(sums, samples) / math.log(2)


@measure
class Accuracy(Ratio):
    """The part of places whose class has the largest logit."""

    name, larger = "accuracy", True
    compares = "classes"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """How many, and the number of places."""
        known = target >= 0
        return torch.stack([((output.argmax(1) == target) & known).sum(), known.sum()]).double()


@measure
class PixelAccuracy(Accuracy):
    """The same of pixels."""

    name = "pixel_accuracy"


@measure
class MeanIoU(Measure):
    """The mean over classes of intersection over union; classes that nothing is, or is taken for, do not count."""

    name, larger = "miou", True
    compares = "classes"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """How often a class was taken for another one [classes, classes]."""
        classes = output.shape[1]
        pairs = torch.where(target >= 0, target * classes + output.argmax(1), classes * classes).flatten()
        counts = torch.zeros(classes * classes + 1, dtype=torch.float64, device=output.device)
        counts.scatter_add_(0, pairs, torch.ones_like(pairs, dtype=torch.float64))  # no GPU is asked how many are known
        return counts[:-1].reshape(classes, classes)

    def figure(self, sums: Tensor, samples: int) -> float:
        """Of the whole matrix."""
        both = sums.diagonal()
        union = sums.sum(0) + sums.sum(1) - both
        return float((both[union > 0] / union[union > 0]).mean()) if bool((union > 0).any()) else math.nan


# of several labels: logits and zeros and ones [n, labels]


@measure
class F1(Measure):
    """2 tp / (2 tp + fp + fn) over all labels together, a label being given where its logit is above 0."""

    name, larger = "f1", True
    compares = "labels"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """True positives, false positives, false negatives."""
        self.require_alike(output, target)
        said, true = output > 0, target > 0.5
        return torch.stack([(said & true).sum(), (said & ~true).sum(), (~said & true).sum()]).double()

    def figure(self, sums: Tensor, samples: int) -> float:
        """1 where there is nothing to say, and nothing was said."""
        right, wrong, left = sums.tolist()
        return 2 * right / (2 * right + wrong + left) if right + wrong + left else 1.0


class LabelAccuracy(Measure):
    """The part of labels that are said rightly."""

    name, larger = "accuracy", True
    compares = "labels"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """The sum of the samples' parts."""
        self.require_alike(output, target)
        return ((output > 0) == (target > 0.5)).double().mean(1).sum()


@measure
class Exact(Measure):
    """The part of samples all of whose labels are said rightly."""

    name, larger = "exact", True
    compares = "labels"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """How many."""
        self.require_alike(output, target)
        return ((output > 0) == (target > 0.5)).all(1).sum()


@measure
class MeanAveragePrecision(Measure):
    """The mean over labels of average precision: of the precision at each logit, weighted by the recall that is gained
    there. Samples of one logit count together; labels that no sample has do not count."""

    name, larger = "mean_average_precision", True
    compares = "labels"
    whole = True

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """Logits and labels of each sample [n, 2, labels]."""
        self.require_alike(output, target)
        return torch.stack([output.double(), (target > 0.5).double()], 1)

    def figure(self, sums: Tensor, samples: int) -> float:
        """Over all samples."""
        found = [_precision(*label) for label in sums.permute(2, 1, 0) if label[1].any()]
        return sum(found) / len(found) if found else math.nan


def _precision(logits: Tensor, true: Tensor) -> float:
    """The average precision of a label [n]."""
    order = logits.argsort(descending=True)
    logits, right = logits[order], true[order].cumsum(0)
    last = torch.cat([logits[1:] != logits[:-1], torch.ones(1, dtype=torch.bool)]).nonzero()[:, 0]
    found = right[last]
    gained = found.diff(prepend=found.new_zeros(1))
    return float((gained * found / (last + 1)).sum() / found[-1])


# of numbers: outputs and targets [n, ...] of one shape


@measure
class SquaredError(Measure):
    """The mean squared error."""

    name = "mse"
    compares = "numbers"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """The sum of the samples' means."""
        self.require_alike(output, target)
        return (output - target).double().square().flatten(1).mean(1).sum()


@measure
class RootSquaredError(SquaredError):
    """Its root."""

    name = "rmse"

    def figure(self, sums: Tensor, samples: int) -> float:
        """Of the mean."""
        return math.sqrt(super().figure(sums, samples))


@measure
class AbsoluteError(Measure):
    """The mean absolute error."""

    name = "mae"
    compares = "numbers"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """The sum of the samples' means."""
        self.require_alike(output, target)
        return (output - target).double().abs().flatten(1).mean(1).sum()


@measure
class Determination(Measure):
    """R^2: 1 minus squared errors over squared distances from the mean; of several numbers of a sample the mean."""

    name, larger = "r2", True
    compares = "numbers"

    def sums(self, output: Tensor, target: Tensor) -> Tensor:
        """For each number of a sample: of errors squared, of targets, of targets squared [3, numbers]."""
        self.require_alike(output, target)
        y = target.double().flatten(1)
        return torch.stack([(output.double().flatten(1) - y).square().sum(0), y.sum(0), y.square().sum(0)])

    def figure(self, sums: Tensor, samples: int) -> float:
        """Numbers that are always the same do not count."""
        errors, total, squares = sums
        spread = squares - total.square() / samples
        told = spread > 1e-12 * squares.clamp(min=1e-300)
        return float((1 - errors[told] / spread[told]).mean()) if bool(told.any()) else math.nan
