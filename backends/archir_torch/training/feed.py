"""Batches by step index; the index and the seed alone determine a batch."""

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
from archir_torch.lowering.generators import seeded_generator
from archir_torch.lowering.replay import RECORDING
from archir_torch.training.augment import (
    NUMBERS_PER_IMAGE,
    RegisteredAugmentations,
    augment_images,
    augment_targets,
    is_image,
    random_numbers,
    sample_mix,
)


@dataclass(frozen=True)
class Batch:
    """Batch of samples: inputs, targets, and class probabilities after mixup or CutMix.

    Inputs are by the net's input names, in the order of the net; targets are by name; the class probabilities are [n,
    classes]. `weight` is the factor by which the mean loss of the batch is multiplied. It is 1, except for a part of
    a batch, or if this process has more or fewer samples than the other processes.
    """

    inputs: Mapping[str, Tensor]
    targets: Mapping[str, Tensor]
    mixed: Tensor | None = None
    weight: float = 1.0

    @classmethod
    def labelled(cls, images: Tensor, labels: Tensor, mixed: Tensor | None = None) -> Batch:
        """Return a batch with one input and a label [n] for each sample."""
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
        """Split the batch into at most `count` parts of nearly equal size.

        The losses of the parts, times their weights, add up to the loss of the batch.
        """
        if count == 1:
            yield self
            return
        for begin, end in split_range(len(self), min(count, len(self))):
            inputs, targets = (
                {name: column[begin:end] for name, column in columns.items()} for columns in (self.inputs, self.targets)
            )
            mixed = self.mixed[begin:end] if self.mixed is not None else None
            yield Batch(inputs, targets, mixed, self.weight * (end - begin) / len(self))


class RowIndices(NamedTuple):
    """Row indices of samples in two copies: on the CPU (for data read from files) and on the device (for all other
    data)."""

    host: Tensor
    device: Tensor

    def slice(self, begin: int, end: int) -> RowIndices:
        """Return the indices at positions `begin` to `end`."""
        return RowIndices(self.host[begin:end], self.device[begin:end])

    def reversed(self) -> RowIndices:
        """Return the indices in reverse order."""
        return RowIndices(self.host.flip(0), self.device.flip(0))

    def select(self, column: Pixels) -> Tensor:
        """Return the samples of an input or target at these indices."""
        return column[self.host if reads_on(column, self.device.device).type == "cpu" else self.device]


class Feed:
    """Batches of a split by step index; the order of the samples changes every epoch.

    `batch(index)` depends on the seed and the index only. With several processes (`world`), each gets batches of
    `batch` samples; together they get the batches of a single process with batch size `batch * world`. The last batch
    of an epoch may be smaller; if it has a single sample, or fewer samples than processes, it is skipped. If inputs
    are computed on access, the next batch is loaded in a thread while the current one is used. `classes` is the
    number of classes of targets after mixup or CutMix, by default inferred from the labels. Raises ArchError (A1701)
    if there are fewer samples than processes.
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
        placed = split.to(device)
        self._inputs, self._targets, self._device = placed.inputs, placed.targets, torch.device(device)
        self._global_batch, self._seed, self._augment = batch * world, seed, augment or Augment()
        self._registered = RegisteredAugmentations(self._augment)
        mixes = self._augment.mixup or self._augment.cutmix
        self._classes = (classes or int(split.labels.max()) + 1) if mixes else 0
        self._rank, self._world = rank, world
        full_batches, remainder = divmod(self._count, self._global_batch)
        keep_last = not full_batches or (remainder >= max(2, world) and not drop_last)
        self.steps = full_batches + int(keep_last)
        self._order = (-1, RowIndices(torch.empty(0), torch.empty(0)))
        in_memory = all(isinstance(column, Tensor) for column in split.inputs.values())
        self._prefetcher = None if in_memory else ThreadPoolExecutor(1, "feed")
        self._prefetched: tuple[int, Future[Batch]] | None = None

    def batch(self, index: int) -> Batch:
        """Return the batch of a step; steps are counted from the start of training."""
        if self._prefetcher is None:
            return self._batch_at(index)
        prefetched, self._prefetched = self._prefetched, None
        if prefetched is not None and prefetched[0] == index:
            batch = prefetched[1].result()
        else:
            batch = self._prefetcher.submit(self._prefetch, index).result()
        self._prefetched = index + 1, self._prefetcher.submit(self._prefetch, index + 1)
        return batch

    def _prefetch(self, index: int) -> Batch:
        """Compute a batch in the prefetch thread; wait while a CUDA graph is being recorded."""
        with RECORDING:
            return self._batch_at(index)

    def _batch_at(self, index: int) -> Batch:
        """Compute the batch of a step: select samples, augment them, and mix each with its partner in the reversed
        batch."""
        epoch, step = divmod(index, self.steps)
        rows = self._rows(epoch).slice(step * self._global_batch, (step + 1) * self._global_batch)
        count = len(rows.host)
        numbers = random_numbers(count, self._seed, index), self._registered.random_numbers(count, self._seed, index)
        random_columns = torch.cat(numbers, 1).to(self._device, non_blocking=True)
        begin, end = split_range(count, self._world)[self._rank]
        weight = (end - begin) * self._world / count
        batch = self._load(rows.slice(begin, end), random_columns[begin:end], weight)
        image = next((name for name, tensor in batch.inputs.items() if is_image(tensor)), None)
        if image is None:
            return batch
        height, width = batch.inputs[image].shape[2:]
        mix = sample_mix(self._augment, height, width, self._seed, index)
        if mix is None:
            return batch
        rows, random_columns = rows.reversed().slice(begin, end), random_columns.flip(0)[begin:end]
        images = batch.inputs[image]
        partners = images.flip(0) if self._world == 1 else self._load(rows, random_columns, weight).inputs[image]
        (labels,) = batch.targets.values()
        (others,) = (rows.select(column) for column in self._targets.values())
        mixed = torch.lerp(self._one_hot(others), self._one_hot(labels), mix.share)
        return Batch({**batch.inputs, image: mix.images(images, partners)}, batch.targets, mixed, weight)

    def _rows(self, epoch: int) -> RowIndices:
        """Return the order of the samples in an epoch. Only the last result is cached."""
        if self._order[0] != epoch:
            order = torch.randperm(self._count, generator=seeded_generator(self._seed, "order", epoch))
            self._order = (epoch, RowIndices(order, order.to(self._device, non_blocking=True)))
        return self._order[1]

    def _load(self, rows: RowIndices, numbers: Tensor, weight: float) -> Batch:
        """Select samples and augment their images; pixel-wise targets [n, H, W] are shifted and mirrored like the
        images."""
        inputs, targets = (
            {name: rows.select(column) for name, column in columns.items()} for columns in (self._inputs, self._targets)
        )
        sizes = {tensor.shape[2:] for tensor in inputs.values() if is_image(tensor)}
        images = {name: self._augment_images(x, numbers) if is_image(x) else x for name, x in inputs.items()}
        moved_targets = {
            name: augment_targets(y, numbers, self._augment) if y.dim() == 3 and y.shape[1:] in sizes else y
            for name, y in targets.items()
        }
        return Batch(images, moved_targets, None, weight)

    def _augment_images(self, images: Tensor, numbers: Tensor) -> Tensor:
        return self._registered.apply(augment_images(images, numbers, self._augment), numbers[:, NUMBERS_PER_IMAGE:])

    def _one_hot(self, labels: Tensor) -> Tensor:
        return F.one_hot(labels, self._classes).float()


def split_range(count: int, shares: int) -> list[tuple[int, int]]:
    """Split `count` items into `shares` consecutive ranges; return the begin and end of each.

    If the ranges cannot be equally long, the first ranges have one item more.
    """
    size, larger = divmod(count, shares)
    stops = [size * (i + 1) + min(i + 1, larger) for i in range(shares)]
    return list(zip([0, *stops], stops, strict=False))
