"""Batches by their index: a feed remembers nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.recipes.training import Augment
from archir_torch.data.pixels import Pixels, reads_on
from archir_torch.data.split import Split
from archir_torch.lowering.generators import generator
from archir_torch.lowering.replay import RECORDING
from archir_torch.training.augment import DRAWS, Further, augmented, draws, is_image, mixing, moved_along


@dataclass(frozen=True)
class Batch:
    """Inputs by the names that the net has for them, in its order, targets by name, and the probabilities of classes
    [n, classes] if images were mixed.

    `weight` is the factor of the mean loss: 1, unless this is a part of a batch, or a larger or smaller share of it
    than other processes have.
    """

    inputs: Mapping[str, Tensor]
    targets: Mapping[str, Tensor]
    mixed: Tensor | None = None
    weight: float = 1.0

    @classmethod
    def labelled(cls, images: Tensor, labels: Tensor, mixed: Tensor | None = None) -> Batch:
        """One input with a label [n] each."""
        return cls({"image": images}, {"label": labels}, mixed)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def images(self) -> Tensor:
        """The first input."""
        return next(iter(self.inputs.values()))

    @property
    def labels(self) -> Tensor:
        """The first target."""
        return next(iter(self.targets.values()))

    def parts(self, count: int) -> Iterator[Batch]:
        """The batch in at most `count` parts, as even as possible; weighted losses of the parts add up to its loss."""
        if count == 1:
            yield self
            return
        for begin, end in _shares(len(self), min(count, len(self))):
            inputs, targets = (
                {name: column[begin:end] for name, column in columns.items()} for columns in (self.inputs, self.targets)
            )
            mixed = self.mixed[begin:end] if self.mixed is not None else None
            yield Batch(inputs, targets, mixed, self.weight * (end - begin) / len(self))


class Rows(NamedTuple):
    """Which samples: the same numbers on the CPU, for what is read from files, and on the device, for all else."""

    host: Tensor
    device: Tensor

    def part(self, begin: int, end: int) -> Rows:
        """Those between two places."""
        return Rows(self.host[begin:end], self.device[begin:end])

    def reversed(self) -> Rows:
        """From the last to the first."""
        return Rows(self.host.flip(0), self.device.flip(0))

    def of(self, column: Pixels) -> Tensor:
        """These samples of a column."""
        return column[self.host if reads_on(column, self.device.device).type == "cpu" else self.device]


class Feed:
    """The batches of a split, in a new order every epoch, the last one maybe smaller.

    `batch(index)` is a function of the seed and the index. Several processes (`world`) have batches of `batch` samples
    each, and together see what one process with a batch `world` times as large would see. A sample that would be alone
    in the last batch waits for another epoch. Of inputs that are made when they are asked for, the next batch is made
    while this one is at work. `classes` is the width of mixed targets, by default that of the labels.
    Raises ArchError (A1701) if there are fewer samples than processes.
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
        self._count = len(split)
        if self._count < world:
            raise fail("A1701", f"{self._count} samples cannot be shared by {world} processes")
        moved = split.to(device)
        self._inputs, self._targets, self._device = moved.inputs, moved.targets, torch.device(device)
        self._whole, self._seed, self._augment = batch * world, seed, augment or Augment()
        self._further = Further(self._augment)
        mixes = self._augment.mixup or self._augment.cutmix
        self._classes = (classes or int(split.labels.max()) + 1) if mixes else 0
        self._rank, self._world = rank, world
        full, rest = divmod(self._count, self._whole)
        partial = not full or (rest >= max(2, world) and not drop_last)
        self.steps = full + int(partial)
        self._order = (-1, Rows(torch.empty(0), torch.empty(0)))
        whole = all(isinstance(one, Tensor) for one in split.inputs.values())
        self._ahead = None if whole else ThreadPoolExecutor(1, "feed")
        self._next: tuple[int, Future[Batch]] | None = None

    def batch(self, index: int) -> Batch:
        """The batch of a step, counted from the first epoch on."""
        if self._ahead is None:
            return self._made(index)
        before, self._next = self._next, None
        if before is not None and before[0] == index:
            made = before[1].result()
        else:
            made = self._ahead.submit(self._alone, index).result()
        self._next = index + 1, self._ahead.submit(self._alone, index + 1)
        return made

    def _alone(self, index: int) -> Batch:
        """A batch that is made in another thread, but not while a GPU is recorded."""
        with RECORDING:
            return self._made(index)

    def _made(self, index: int) -> Batch:
        epoch, step = divmod(index, self.steps)
        rows = self._rows(epoch).part(step * self._whole, (step + 1) * self._whole)
        count = len(rows.host)
        numbers = draws(count, self._seed, index), self._further.draws(count, self._seed, index)
        drawn = torch.cat(numbers, 1).to(self._device, non_blocking=True)
        begin, end = _shares(count, self._world)[self._rank]
        weight = (end - begin) * self._world / count
        batch = self._drawn(rows.part(begin, end), drawn[begin:end], weight)
        image = next((name for name, one in batch.inputs.items() if is_image(one)), None)
        if image is None:
            return batch
        height, width = batch.inputs[image].shape[2:]
        mix = mixing(self._augment, height, width, self._seed, index)
        if mix is None:
            return batch
        rows, drawn = rows.reversed().part(begin, end), drawn.flip(0)[begin:end]
        images = batch.inputs[image]
        partners = images.flip(0) if self._world == 1 else self._drawn(rows, drawn, weight).inputs[image]
        (labels,) = batch.targets.values()
        (others,) = (rows.of(column) for column in self._targets.values())
        mixed = torch.lerp(self._one_hot(others), self._one_hot(labels), mix.share)
        return Batch({**batch.inputs, image: mix.images(images, partners)}, batch.targets, mixed, weight)

    def _rows(self, epoch: int) -> Rows:
        """The order of an epoch; the last one that was asked for is kept."""
        if self._order[0] != epoch:
            order = torch.randperm(self._count, generator=generator(self._seed, "order", epoch))
            self._order = (epoch, Rows(order, order.to(self._device, non_blocking=True)))
        return self._order[1]

    def _drawn(self, rows: Rows, drawn: Tensor, weight: float) -> Batch:
        """Some samples. Images are augmented, and targets that lie on them [n, H, W] move along."""
        inputs, targets = (
            {name: rows.of(column) for name, column in columns.items()} for columns in (self._inputs, self._targets)
        )
        sizes = {one.shape[2:] for one in inputs.values() if is_image(one)}
        made = {name: self._augmented(x, drawn) if is_image(x) else x for name, x in inputs.items()}
        along = {
            name: moved_along(y, drawn, self._augment) if y.dim() == 3 and y.shape[1:] in sizes else y
            for name, y in targets.items()
        }
        return Batch(made, along, None, weight)

    def _augmented(self, images: Tensor, drawn: Tensor) -> Tensor:
        return self._further.apply(augmented(images, drawn, self._augment), drawn[:, DRAWS:])

    def _one_hot(self, labels: Tensor) -> Tensor:
        return F.one_hot(labels, self._classes).float()


def _shares(count: int, shares: int) -> list[tuple[int, int]]:
    """Begin and end of so many shares of a row of things, the first ones larger by one if it must be."""
    each, more = divmod(count, shares)
    ends = [each * (i + 1) + min(i + 1, more) for i in range(shares)]
    return list(zip([0, *ends], ends, strict=False))
