"""Samples as networks see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal

import torch
from torch import Tensor

from archir.data.selection import halves
from archir_torch.data.pixels import Device, Pixels, chosen


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs of samples by the names that a net has for them, in its order, and their targets by name.

    `inputs[name][rows]` are some of an input: images [n, C, H, W] as float32, normalised; `rows` says which of their
    source's part the samples are, if that is known.
    """

    inputs: Mapping[str, Pixels]
    targets: Mapping[str, Tensor]
    rows: Tensor | None = None

    @classmethod
    def labelled(cls, images: Pixels, labels: Tensor, rows: Tensor | None = None) -> Split:
        """Samples of one input and a label [n] int64."""
        return cls({"image": images}, {"label": labels}, rows)

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def pixels(self) -> Pixels:
        """The first input."""
        return next(iter(self.inputs.values()))

    @property
    def images(self) -> Tensor:
        """All of the first input at once, which may be more than fits in memory where `pixels` is no tensor."""
        return self.pixels if isinstance(self.pixels, Tensor) else self.pixels[torch.arange(len(self))]

    @property
    def labels(self) -> Tensor:
        """The first target."""
        return next(iter(self.targets.values()))

    def chosen(self, rows: Tensor) -> Split:
        """Some of the samples, in the order of the rows."""
        inputs = {name: chosen(one, rows) for name, one in self.inputs.items()}
        targets = {name: one[rows] for name, one in self.targets.items()}
        return Split(inputs, targets, rows if self.rows is None else self.rows[rows])

    def to(self, device: Device) -> Split:
        """The same on a device; what says which samples they are stays where it is."""
        inputs = {name: one.to(device) for name, one in self.inputs.items()}
        return replace(self, inputs=inputs, targets={name: one.to(device) for name, one in self.targets.items()})


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of each channel of an input, of `pixels` that were bytes or of `numbers`."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    of: Literal["pixels", "numbers"]


@dataclass(frozen=True, eq=False)
class Data:
    """What a network trains on and what is held out; `classes` are there if the only target is a label.

    Inputs of floating-point numbers are normalised by the training part, as `scales` say, the first one by `mean` and
    `std`. A search
    divides the training part once more, the same for whoever asks: a `share` of it is for weights. Samples of a series
    share nothing if their rows are `apart`.
    """

    train: Split
    held_out: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    share: float = 0.5
    seed: int = 0
    apart: int | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)

    @classmethod
    def none(cls) -> Data:
        """No samples, for what needs none."""
        return cls(Split({}, {}), Split({}, {}), (), (), ())

    def halves(self) -> tuple[Split, Split]:
        """The training part divided for a search: what weights are trained on, and what chooses (validation).

        Each class is divided alike, by the seed; a series is cut, so that no half has seen the other. Raises ArchError
        (A1113) if a half would be empty.
        """
        rows = None if self.train.rows is None else self.train.rows.numpy()
        first, rest = halves(self.strata(self.train).numpy(), self.share, self.seed, rows, self.apart)
        return self.train.chosen(torch.from_numpy(first)), self.train.chosen(torch.from_numpy(rest))

    def strata(self, split: Split) -> Tensor:
        """What samples are divided by, each kind alike: their labels, or nothing."""
        return split.labels if self.classes else torch.zeros(len(split), dtype=torch.int64)


def about(source: Any, seed: int, data: Data) -> dict[str, Any]:
    """What whoever uses a network must know of the samples that it was trained on, for JSON; objects of Python have no
    name."""
    named = str(source) if isinstance(source, str | PurePath) else ""
    return {
        "source": named, "seed": seed, "mean": list(data.mean), "std": list(data.std), "classes": list(data.classes),
        "scales": {name: asdict(scale) for name, scale in data.scales.items()},
    }  # fmt: skip
