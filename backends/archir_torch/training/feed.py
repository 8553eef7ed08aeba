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
from archir.recipes.augmentation import Augment
from archir_torch.augmentation.augmenter import Augmenter, Draws, require_pixels
from archir_torch.augmentation.crops import are_images
from archir_torch.augmentation.mixing import partners, sample_mix
from archir_torch.data.pixels import Pixels, reads_on
from archir_torch.data.split import Scale, Split
from archir_torch.lowering.generators import seeded_generator
from archir_torch.lowering.replay import RECORDING


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

    def of(self, column: Pixels) -> Tensor:
        """Return the copy that selects samples of this input or target."""
        return self.host if reads_on(column, self.device.device).type == "cpu" else self.device

    def select(self, column: Pixels) -> Tensor:
        """Return the samples of an input or target at these indices."""
        return column[self.of(column)]


class Feed:
    """Batches of a split by step index; the order of the samples changes every epoch.

    `batch(index)` depends on the seed and the index only. With several processes (`world`), each gets batches of
    `batch` samples; together they get the batches of a single process with batch size `batch * world`. The last batch
    of an epoch may be smaller; if it has a single sample, or fewer samples (pairs of
    samples, if they are mixed) than processes, it is skipped. If inputs
    are computed on access, the next batch is loaded in a thread while the current one is used. `classes` is the
    number of classes of targets after mixup or CutMix, by default inferred from the labels; `scales` are the
    normalisations of the inputs by name, which changes of colour need. Raises ArchError: A1701 (fewer samples than
    processes), A1116 (no colours to change).
    """

    def __init__(
        self,
        split: Split,
        batch: int,
        *,
        seed: int,
        augment: Augment | None = None,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world: int = 1,
        classes: int | None = None,
        scales: Mapping[str, Scale] | None = None,
    ) -> None:
        self._count, self._scales = len(split), scales or {}
        settings = augment or Augment()
        require_pixels(settings, self._scales)
        mixes = bool(settings.mixup or settings.cutmix)
        self._unit = 2 if mixes else 1
        """Number of neighbouring samples that one process gets: pairs, if they are mixed."""
        if self._count < world * self._unit:
            raise fail("A1701", f"{self._count} samples cannot be shared by {world} processes")
        placed = split.to(device)
        self._inputs, self._targets, self._device = placed.inputs, placed.targets, torch.device(device)
        self._global_batch, self._seed, self._settings = batch * world, seed, settings
        self._augmenter = Augmenter(settings, seed)
        self._classes = (classes or int(split.labels.max()) + 1) if mixes else 0
        self._rank, self._world = rank, world
        full_batches, remainder = divmod(self._count, self._global_batch)
        keep_last = not full_batches or remainder >= max(2, world * self._unit)
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
        """Compute the batch of a step: select samples, augment them, and mix neighbours with each other."""
        epoch, step = divmod(index, self.steps)
        rows = self._rows(epoch).slice(step * self._global_batch, (step + 1) * self._global_batch)
        count = len(rows.host)
        begin, end = split_range(count, self._world, self._unit)[self._rank]
        weight = (end - begin) * self._world / count
        batch = self._load(rows.slice(begin, end), self._augmenter.draw(count, index).slice(begin, end), index, weight)
        image = next((name for name, tensor in batch.inputs.items() if is_image(tensor)), None)
        if image is None:
            return batch
        images = batch.inputs[image]
        mix = sample_mix(self._settings, images.shape[2], images.shape[3], self._seed, index)
        if mix is None:
            return batch
        others = partners(len(images)).to(self._device, non_blocking=True)
        (labels,) = batch.targets.values()
        classes = F.one_hot(labels, self._classes).float()
        mixed = torch.lerp(classes[others], classes, mix.share)
        return Batch({**batch.inputs, image: mix.images(images, images[others])}, batch.targets, mixed, weight)

    def _rows(self, epoch: int) -> RowIndices:
        """Return the order of the samples in an epoch. Only the last result is cached."""
        if self._order[0] != epoch:
            order = torch.randperm(self._count, generator=seeded_generator(self._seed, "order", epoch))
            order = order[repeated_positions(self._count, self._global_batch, self._settings.repeat)]
            self._order = (epoch, RowIndices(order, order.to(self._device, non_blocking=True)))
        return self._order[1]

    def _load(self, rows: RowIndices, draws: Draws, index: int, weight: float) -> Batch:
        """Select samples and augment their images; pixel-wise targets [n, H, W] are moved like the images."""
        targets = {name: rows.select(column) for name, column in self._targets.items()}
        maps = {name: target for name, target in targets.items() if target.dim() == 3}
        inputs: dict[str, Tensor] = {}
        for name, column in self._inputs.items():
            if self._settings.crop is not None and are_images(column):
                inputs[name] = self._augmenter.crop(column, rows.of(column), draws, stored=bool(maps))
            else:
                inputs[name] = rows.select(column)
        images = {name: x for name, x in inputs.items() if is_image(x)}
        for name, x in images.items():
            inputs[name] = self._augmenter.augment(x, draws, index, self._scales.get(name))
        for name, target in maps.items():
            if target.shape[1:] in {x.shape[2:] for x in images.values()}:
                targets[name] = self._augmenter.augment_targets(target, draws)
        return Batch(inputs, targets, None, weight)


def is_image(x: Tensor) -> bool:
    """Return True if an input is a batch of images [n, C, H, W]."""
    return x.dim() == 4 and x.is_floating_point()


def repeated_positions(count: int, batch: int, repeat: int) -> Tensor:
    """Return the position in the order of an epoch of each of its `count` samples, if each occurs `repeat` times in a
    batch.

    The copies in a batch are apart, so that neighbours, which may be mixed, are different samples.
    """
    positions = torch.arange(count)
    step, place = positions // batch, positions % batch
    size = (count - step * batch).clamp(max=batch)
    return step * -(-batch // repeat) + place % ((size + repeat - 1) // repeat)


def split_range(count: int, shares: int, unit: int = 1) -> list[tuple[int, int]]:
    """Split `count` items into `shares` consecutive ranges of whole units; return the begin and end of each.

    If the ranges cannot be equally long, the first ranges have one unit more.
    """
    size, larger = divmod(-(-count // unit), shares)
    stops = [min(count, unit * (size * (i + 1) + min(i + 1, larger))) for i in range(shares)]
    return list(zip([0, *stops], stops, strict=False))
