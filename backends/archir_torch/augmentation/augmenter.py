"""All augmentations of a batch, in order, with random numbers for the whole batch.

The numbers are drawn on the CPU for the batch of all processes together, so that they depend neither on the device nor
on the number of processes, and a resumed training draws them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from archir.data.resizing import CROP_DRAWS
from archir.diagnostics.errors import fail
from archir.recipes.augmentation import Augment, find_augmentation
from archir_torch.augmentation.crops import random_crops, random_crops_of_targets, select_random_crops
from archir_torch.augmentation.erasing import ERASE_DRAWS, erase, erased_boxes
from archir_torch.augmentation.policies import apply_policies, draws_of
from archir_torch.augmentation.shifts import SHIFT_DRAWS, cutout, shift_and_flip, shift_and_flip_targets
from archir_torch.data.pixels import Pixels
from archir_torch.data.split import Scale
from archir_torch.lowering.generators import seeded_generator


def require_pixels(settings: Augment, scales: Mapping[str, Scale]) -> None:
    """Raise ArchError (A1116) if colours are to be changed, and no input with these normalisations has pixels."""
    if settings.needs_pixels and not any(scale.of == "pixels" for scale in scales.values()):
        raise fail("A1116", "`jitter`, `auto_augment` and `rand_augment` change colours, and these data have none")


class Draws(NamedTuple):
    """Random numbers in [0, 1) for the images of a batch, each [n, k]: the columns of each kind of augmentation."""

    crop: Tensor
    shift: Tensor
    policies: Tensor
    erase: Tensor
    also: Tensor

    def slice(self, begin: int, end: int) -> Draws:
        """Return the numbers of the images from `begin` to `end`."""
        return Draws(*(columns[begin:end] for columns in self))


class Augmenter:
    """Augments the batches of a training. Raises ArchError: A2219 (there is no such augmentation of a plugin), A1109
    (invalid options)."""

    def __init__(self, settings: Augment, seed: int) -> None:
        self.settings, self._seed = settings, seed
        self._also = [find_augmentation(options) for options in settings.also]

    def draw(self, count: int, index: int) -> Draws:
        """Draw the random numbers for the `count` images of a step."""
        settings = self.settings

        def draw(columns: int, *names: int | str) -> Tensor:
            if not columns:
                return torch.empty(count, 0)
            return torch.rand(count, columns, generator=seeded_generator(self._seed, *names, index))

        also = [draw(kind.draws, "augment", number) for number, (kind, _) in enumerate(self._also)]
        return Draws(
            draw(CROP_DRAWS if settings.crop else 0, "crop"),
            draw(SHIFT_DRAWS, "augment"),
            draw(draws_of(settings), "policies"),
            draw(ERASE_DRAWS if settings.erase else 0, "erase"),
            torch.cat(also, 1) if also else torch.empty(count, 0),
        )

    def crop(self, pixels: Pixels, rows: Tensor, draws: Draws, *, stored: bool) -> Tensor:
        """Return random crops of the images in `rows`; only if the setting `crop` is on.

        With `stored`, the crops are taken from images of the net's size, like those of pixel-wise targets, and not from
        the original files.
        """
        assert self.settings.crop is not None
        if not stored:
            return select_random_crops(pixels, rows, draws.crop, self.settings.crop)
        images = pixels[rows]
        return random_crops(images, draws.crop, self.settings.crop, images.shape[2:], "bilinear")

    def augment(self, images: Tensor, draws: Draws, index: int, scale: Scale | None = None) -> Tensor:
        """Return the images [n, C, H, W] of a step, augmented in all ways but crops and mixing.

        `scale` is their normalisation, which changes of colour need.
        """
        settings, device = self.settings, images.device
        shift = draws.shift.to(device, non_blocking=True)
        if settings.shift or settings.flip:
            images = shift_and_flip(images, shift[:, :3], settings.shift, settings.flip)
        if settings.needs_pixels and scale is not None and scale.of == "pixels":
            images = self._change_pixels(images, draws, scale)
        if settings.erase:
            boxes = erased_boxes(draws.erase, images.shape[2], images.shape[3], settings.erase)
            generator = seeded_generator(self._seed, "noise", index)
            noise = torch.randn(images.shape[1:], generator=generator) if settings.erase.fill == "noise" else None
            images = erase(images, boxes, noise)
        if settings.cutout:
            images = cutout(images, shift[:, 3:], settings.cutout)
        also = draws.also.to(device, non_blocking=True)
        for kind, options in self._also:
            images, also = kind.apply(images, also[:, : kind.draws], options), also[:, kind.draws :]
        return images

    def augment_targets(self, targets: Tensor, draws: Draws) -> Tensor:
        """Return targets [n, H, W], cropped, shifted and mirrored like their images."""
        if self.settings.crop:
            targets = random_crops_of_targets(targets, draws.crop, self.settings.crop)
        return shift_and_flip_targets(targets, draws.shift.to(targets.device, non_blocking=True), self.settings)

    def _change_pixels(self, images: Tensor, draws: Draws, scale: Scale) -> Tensor:
        """Apply the policies to the pixels from 0 to 255 that the normalised images stand for."""
        mean, std = (
            torch.tensor(numbers).to(images.device, non_blocking=True)[:, None, None]
            for numbers in (scale.mean, scale.std)
        )
        pixels = ((images * std + mean) * 255).round().clamp(0, 255)
        return (apply_policies(pixels, draws.policies, self.settings) / 255 - mean) / std
