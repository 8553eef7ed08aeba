"""Splits of samples for training, validation and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal

import torch
from torch import Tensor

from archir.data.selection import split_for_search
from archir_torch.data.pixels import Device, Pixels, select_rows


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs and targets of samples, by name; inputs are in the order of the net.

    `inputs[name][rows]` are some samples of an input: for images, [n, C, H, W] as float32, normalised. `rows` are the
    samples' row numbers in their part of the source, if known.
    """

    inputs: Mapping[str, Pixels]
    targets: Mapping[str, Tensor]
    rows: Tensor | None = None

    @classmethod
    def labelled(cls, images: Pixels, labels: Tensor, rows: Tensor | None = None) -> Split:
        """Create a split with one input, `image`, and one target, `label` [n] int64."""
        return cls({"image": images}, {"label": labels}, rows)

    def __len__(self) -> int:
        return len(self.pixels) if self.inputs else 0

    @property
    def pixels(self) -> Pixels:
        """The first input."""
        return next(iter(self.inputs.values()))

    @property
    def images(self) -> Tensor:
        """All samples of the first input as one tensor, which may exceed the memory if `pixels` is not a tensor."""
        return self.pixels if isinstance(self.pixels, Tensor) else self.pixels[torch.arange(len(self))]

    @property
    def labels(self) -> Tensor:
        """The first target."""
        return next(iter(self.targets.values()))

    def select(self, rows: Tensor) -> Split:
        """Return some of the samples, in the order of `rows`."""
        inputs = {name: select_rows(column, rows) for name, column in self.inputs.items()}
        targets = {name: column[rows] for name, column in self.targets.items()}
        return Split(inputs, targets, rows if self.rows is None else self.rows[rows])

    def to(self, device: Device) -> Split:
        """Return the same samples on a device; `rows` stays on its device."""
        inputs = {name: column.to(device) for name, column in self.inputs.items()}
        return replace(self, inputs=inputs, targets={name: column.to(device) for name, column in self.targets.items()})


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of each channel, by which an input was normalised."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    of: Literal["pixels", "numbers"]
    """What was normalised: `pixels`, images scaled to 0..1 beforehand, or `numbers`."""


@dataclass(frozen=True, eq=False)
class Data:
    """Samples for training and held-out samples. `classes` are named if the only target is a label.

    Floating-point inputs are normalised by statistics of the training part: by name in `scales`, those of the first
    input also in `mean` and `std`. A search divides the training part once more, reproducibly by `seed`: the fraction
    `share` trains weights. For a time series, rows closer than `min_gap` may overlap.
    """

    train: Split
    held_out: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    share: float = 0.5
    seed: int = 0
    min_gap: int | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> Data:
        """Return data without samples, for phases that need none."""
        return cls(Split({}, {}), Split({}, {}), (), (), ())

    def halves(self) -> tuple[Split, Split]:
        """Divide the training part for a search: into samples that train weights, and samples that choose (validation).

        Every class is divided in the same proportion, by the seed. A series is cut, with a gap so that the two parts do
        not overlap. Raises ArchError (A1113) if a part would be empty.
        """
        rows = None if self.train.rows is None else self.train.rows.numpy()
        train, validation = split_for_search(self.strata(self.train).numpy(), self.share, self.seed, rows, self.min_gap)
        return self.train.select(torch.from_numpy(train)), self.train.select(torch.from_numpy(validation))

    def strata(self, split: Split) -> Tensor:
        """Return the strata that are divided in the same proportion: the labels, or zeros if there are no classes."""
        return split.labels if self.classes else torch.zeros(len(split), dtype=torch.int64)


def describe_data(source: Any, seed: int, data: Data) -> dict[str, Any]:
    """Describe the training data for JSON, with what is needed to use the network: normalisation and classes.

    The source is empty if it is a Python object.
    """
    label = str(source) if isinstance(source, str | PurePath) else ""
    return {
        "source": label, "seed": seed, "mean": list(data.mean), "std": list(data.std), "classes": list(data.classes),
        "scales": {name: asdict(scale) for name, scale in data.scales.items()},
    }  # fmt: skip
