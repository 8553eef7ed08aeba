"""Batches by their index: a feed remembers nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.base.errors import fail
from archir.search.recipes.training import Augment
from archir_torch.data.split import Split
from archir_torch.lowering.generators import generator
from archir_torch.training.augment import augmented, draws, mixing


@dataclass(frozen=True)
class Batch:
    """Images [n, C, H, W], labels [n], and the probabilities of classes [n, classes] if images were mixed.

    `weight` is the factor of the mean loss: 1, unless this is a part of a batch, or a larger or smaller share of it
    than other processes have.
    """

    images: Tensor
    labels: Tensor
    targets: Tensor | None = None
    weight: float = 1.0

    def __len__(self) -> int:
        return len(self.labels)

    def parts(self, count: int) -> Iterator[Batch]:
        """The batch in at most `count` parts, as even as possible; weighted losses of the parts add up to its loss."""
        if count == 1:
            yield self
            return
        for begin, end in _shares(len(self), min(count, len(self))):
            targets = self.targets[begin:end] if self.targets is not None else None
            weight = self.weight * (end - begin) / len(self)
            yield Batch(self.images[begin:end], self.labels[begin:end], targets, weight)


class Feed:
    """The batches of a split, in a new order every epoch, the last one maybe smaller.

    `batch(index)` is a function of the seed and the index. Several processes (`world`) have batches of `batch` images
    each, and together see what one process with a batch `world` times as large would see. An image that would be alone
    in the last batch waits for another epoch. Of images that are made when they are asked for, the next batch is made
    while this one is at work. `classes` is the width of mixed targets, by default that of the labels.
    Raises ArchError (A1701) if there are fewer images than processes.
    """

    def __init__(
        self,
        split: Split,
        batch: int,
        *,
        seed: int,
        augment: Augment | None = None,
        device: torch.device | str = "cpu",
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
        classes: int | None = None,
    ) -> None:
        self._count = len(split.labels)
        if self._count < world:
            raise fail("A1701", f"{self._count} images cannot be shared by {world} processes")
        self._pixels, self._labels = split.pixels.to(device), split.labels.to(device)
        self._classes = classes or int(split.labels.max()) + 1
        self._whole, self._seed, self._augment = batch * world, seed, augment or Augment()
        self._rank, self._world = rank, world
        full, rest = divmod(self._count, self._whole)
        partial = not full or (rest >= max(2, world) and not drop_last)
        self.steps = full + int(partial)
        self._order = (-1, torch.empty(0))
        self._ahead = None if isinstance(split.pixels, Tensor) else ThreadPoolExecutor(1, "feed")
        self._next: tuple[int, Future[Batch]] | None = None

    def batch(self, index: int) -> Batch:
        """The batch of a step, counted from the first epoch on."""
        if self._ahead is None:
            return self._made(index)
        before, self._next = self._next, None
        if before is not None and before[0] == index:
            made = before[1].result()
        else:
            made = self._ahead.submit(self._made, index).result()
        self._next = index + 1, self._ahead.submit(self._made, index + 1)
        return made

    def _made(self, index: int) -> Batch:
        epoch, step = divmod(index, self.steps)
        rows = self._rows(epoch)[step * self._whole : (step + 1) * self._whole]
        drawn = draws(len(rows), self._seed, index).to(rows.device, non_blocking=True)
        begin, end = _shares(len(rows), self._world)[self._rank]
        weight = (end - begin) * self._world / len(rows)
        labels = self._labels[rows[begin:end]]
        images = self._taken(rows[begin:end], drawn[begin:end])
        mix = mixing(self._augment, images.shape[2], images.shape[3], self._seed, index)
        if mix is None:
            return Batch(images, labels, None, weight)
        rows, drawn = rows.flip(0)[begin:end], drawn.flip(0)[begin:end]
        partners = images.flip(0) if self._world == 1 else self._taken(rows, drawn)
        targets = torch.lerp(self._one_hot(self._labels[rows]), self._one_hot(labels), mix.share)
        return Batch(mix.images(images, partners), labels, targets, weight)

    def _rows(self, epoch: int) -> Tensor:
        """The order of an epoch; the last one that was asked for is kept."""
        if self._order[0] != epoch:
            order = torch.randperm(self._count, generator=generator(self._seed, "order", epoch))
            self._order = (epoch, order.to(self._labels.device))
        return self._order[1]

    def _taken(self, rows: Tensor, drawn: Tensor) -> Tensor:
        return augmented(self._pixels[rows], drawn, self._augment)

    def _one_hot(self, labels: Tensor) -> Tensor:
        return F.one_hot(labels, self._classes).float()


def _shares(count: int, shares: int) -> list[tuple[int, int]]:
    """Begin and end of so many shares of a row of things, the first ones larger by one if it must be."""
    each, more = divmod(count, shares)
    ends = [each * (i + 1) + min(i + 1, more) for i in range(shares)]
    return list(zip([0, *ends], ends, strict=False))
