"""Labelled images as networks see them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from archir.base.errors import fail
from archir_torch.data.choosing import stratified
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
        count = round(self.share * len(self.train))
        if not 0 < count < len(self.train):
            raise fail("A1113", f"{self.share} of {len(self.train)} images leaves a half without images")
        first = stratified(self.train.labels, count, self.seed, "halves")
        rest = torch.ones(len(self.train), dtype=torch.bool)
        rest[first] = False
        return self.train.chosen(first), self.train.chosen(rest.nonzero().flatten())


def about(source: str, seed: int, data: Data) -> dict[str, Any]:
    """What whoever uses a network must know of the images that it was trained on, for JSON."""
    return {
        "source": source, "seed": seed, "mean": list(data.mean), "std": list(data.std), "classes": list(data.classes),
    }  # fmt: skip


def record(source: str, seed: int, splits: Mapping[str, Split]) -> dict[str, Any]:
    """What a run stores to know its splits again, for JSON: how many images, and SHA-256 of their rows and labels."""
    return {
        "source": source,
        "seed": seed,
        "splits": {
            name: {"images": len(split), "rows": _hash(split.rows), "labels": _hash(split.labels)}
            for name, split in splits.items()
        },
    }


def verify(stored: Mapping[str, Any], source: str, seed: int, splits: Mapping[str, Split]) -> None:
    """Whether splits are the recorded ones. Raises ArchError (A1114) naming those that differ."""
    now = record(source, seed, splits)
    before = stored.get("splits")
    before = before if isinstance(before, dict) else {}
    differ = [name for name in now["splits"] | before if before.get(name) != now["splits"].get(name)]
    if differ or stored.get("seed") != seed:
        hint = "the data was changed since, or divided with other settings: start a new run"
        what = f"splits {', '.join(differ)}" if differ else f"seed {stored.get('seed')}"
        raise fail("A1114", f"`{source}` does not give the {what} that this run began with", None, hint)


def _hash(numbers: Tensor | None) -> str:
    listed = numbers if numbers is not None else torch.empty(0)
    return hashlib.sha256(listed.cpu().long().numpy().astype("<i8").tobytes()).hexdigest()
