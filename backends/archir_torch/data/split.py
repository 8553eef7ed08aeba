"""Labelled images as networks see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from archir.search.data.selection import halves
from archir_torch.data.pixels import Device, Pixels, chosen


@dataclass(frozen=True, eq=False)
class Split:
    """Images [n, C, H, W], normalised float32, and their labels [n] int64.

    `pixels[rows]` are some of the images; `rows` says which of their source's part they are, if that is known.
    """

    pixels: Pixels
    labels: Tensor
    rows: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def images(self) -> Tensor:
        """All images at once, which may be more than fit in memory where `pixels` is no tensor."""
        return self.pixels if isinstance(self.pixels, Tensor) else self.pixels[torch.arange(len(self))]

    def chosen(self, rows: Tensor) -> Split:
        """Some of the images, in the order of the rows."""
        return Split(chosen(self.pixels, rows), self.labels[rows], rows if self.rows is None else self.rows[rows])

    def to(self, device: Device) -> Split:
        """The same on a device; what says which images they are stays where it is."""
        return replace(self, pixels=self.pixels.to(device), labels=self.labels.to(device))


@dataclass(frozen=True, eq=False)
class Data:
    """What a network trains on and what is held out; images are normalised by `mean` and `std` of the training part.

    A search divides the training part once more, the same for whoever asks: a `share` of it is for weights.
    """

    train: Split
    held_out: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    share: float = 0.5
    seed: int = 0

    def halves(self) -> tuple[Split, Split]:
        """The training part divided for a search: what weights are trained on, and what chooses (validation).

        Each class is divided alike, by the seed. Raises ArchError (A1113) if a half would be empty.
        """
        first, rest = halves(self.train.labels.numpy(), self.share, self.seed)
        return self.train.chosen(torch.from_numpy(first)), self.train.chosen(torch.from_numpy(rest))


def about(source: str, seed: int, data: Data) -> dict[str, Any]:
    """What whoever uses a network must know of the images that it was trained on, for JSON."""
    return {
        "source": source, "seed": seed, "mean": list(data.mean), "std": list(data.std), "classes": list(data.classes),
    }  # fmt: skip
