"""Partition of samples into training, validation and test parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal

import torch
from torch import Tensor

from archir.data.resizing import Resizing
from archir.data.splits import split_for_search
from archir_torch.data.pixels import Device, Pixels, select_rows


@dataclass(frozen=True, eq=False)
class Split:
    """Part of the samples: inputs and targets by name, with the inputs in the order of the net.

    `inputs[name][rows]` are samples of one input: for images, normalised float32 [n, C, H, W]. `rows` holds the row
    number of each sample in its part of the source; None if the row numbers are unknown.
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
        """Samples of the first input."""
        return next(iter(self.inputs.values()))

    @property
    def images(self) -> Tensor:
        """All samples of the first input as one tensor, which may not fit into memory if `pixels` is not a tensor."""
        return self.pixels if isinstance(self.pixels, Tensor) else self.pixels[torch.arange(len(self))]

    @property
    def labels(self) -> Tensor:
        """The first target."""
        return next(iter(self.targets.values()))

    def select(self, rows: Tensor) -> Split:
        """Return a subset of the samples, in the order of `rows`."""
        inputs = {name: select_rows(column, rows) for name, column in self.inputs.items()}
        targets = {name: column[rows] for name, column in self.targets.items()}
        return Split(inputs, targets, rows if self.rows is None else self.rows[rows])

    def to(self, device: Device) -> Split:
        """Return the same samples on a device; the row numbers in `rows` are not moved."""
        inputs = {name: column.to(device) for name, column in self.inputs.items()}
        return replace(self, inputs=inputs, targets={name: column.to(device) for name, column in self.targets.items()})


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of each channel by which an input is normalised."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    of: Literal["pixels", "numbers"]
    """What is normalised: `pixels` (images, first scaled to 0..1) or `numbers`."""


@dataclass(frozen=True, eq=False)
class Data:
    """Training samples and held-out samples.

    `classes` lists the class names if the only target is a class label; otherwise it is empty.

    Floating-point inputs are normalised by the statistics of the training part: by input name in `scales`; `mean` and
    `std` are those of the first input. A search divides the training part again, reproducibly by `seed`: the fraction
    `share` of it trains weights. In a time series, rows closer than `min_gap` may overlap.
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
        """Return an object without samples, for phases that need no data."""
        return cls(Split({}, {}), Split({}, {}), (), (), ())

    def halves(self) -> tuple[Split, Split]:
        """Divide the training part for a search: samples that train weights, and validation samples that choose
        architectures.

        The seed decides the division; every class is divided in the same proportion. A time series is divided at one
        point in time, with a gap so that the two parts do not overlap. Raises ArchError (A1113) if a part would be
        empty.
        """
        rows = None if self.train.rows is None else self.train.rows.numpy()
        train, validation = split_for_search(self.strata(self.train).numpy(), self.share, self.seed, rows, self.min_gap)
        return self.train.select(torch.from_numpy(train)), self.train.select(torch.from_numpy(validation))

    def strata(self, split: Split) -> Tensor:
        """Return the stratum of each sample for stratified sampling: its label, or 0 if there are no classes."""
        return split.labels if self.classes else torch.zeros(len(split), dtype=torch.int64)


def describe_data(source: Any, seed: int, data: Data, resizing: Resizing | None = None) -> dict[str, Any]:
    """Return a JSON description of the training data, with what is needed to use the network: normalisation, classes
    and how images are resized.

    `source` is empty in the description if the data came from a Python object.
    """
    label = str(source) if isinstance(source, str | PurePath) else ""
    return {
        "source": label, "seed": seed, "mean": list(data.mean), "std": list(data.std), "classes": list(data.classes),
        "scales": {name: asdict(scale) for name, scale in data.scales.items()},
        "resizing": asdict(resizing or Resizing()),
    }  # fmt: skip
