"""Data augmentation of whole batches, on the device that holds them.

Random numbers are generated on the CPU for the global batch (over all processes), so that they do not depend on the
device or on the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from archir.recipes.training import Augment, find_augmentation
from archir.utils.seeds import derive_seed
from archir_torch.lowering.generators import seeded_generator

NUMBERS_PER_IMAGE = 5
"""Number of random numbers per image: shift down, shift right, mirror, and row and column of the Cutout centre."""


def random_numbers(count: int, seed: int, index: int) -> Tensor:
    """Return the random numbers for the images in a step: uniform in [0, 1), shape [count, 5]."""
    return torch.rand(count, NUMBERS_PER_IMAGE, generator=seeded_generator(seed, "augment", index))


class RegisteredAugmentations:
    """Augmentations from plugins, as named in the setting `also`.

    Raises ArchError: A2219 (there is no such augmentation), A1109 (invalid options).
    """

    def __init__(self, settings: Augment) -> None:
        self._augmentations = [find_augmentation(options) for options in settings.also]

    def random_numbers(self, count: int, seed: int, index: int) -> Tensor:
        """Return the random numbers for the images in a step, uniform in [0, 1); each augmentation has its own
        columns."""
        columns = [
            torch.rand(count, kind.draws, generator=seeded_generator(seed, "augment", number, index))
            for number, (kind, _) in enumerate(self._augmentations)
        ]
        return torch.cat(columns, 1) if columns else torch.empty(count, 0)

    def apply(self, images: Tensor, numbers: Tensor) -> Tensor:
        """Apply all registered augmentations to the images, one after the other."""
        for kind, options in self._augmentations:
            images, numbers = kind.apply(images, numbers[:, : kind.draws], options), numbers[:, kind.draws :]
        return images


def augment_images(images: Tensor, numbers: Tensor, settings: Augment) -> Tensor:
    """Shift and mirror images [n, C, H, W] and apply Cutout, with the random numbers in the first five columns of
    `numbers`."""
    if settings.shift or settings.flip:
        images = _shift_and_flip(images, numbers[:, :3], settings.shift, settings.flip)
    if settings.cutout:
        images = _cutout(images, numbers[:, 3:NUMBERS_PER_IMAGE], settings.cutout)
    return images


def is_image(x: Tensor) -> bool:
    """Return True if an input is a batch of images [n, C, H, W]."""
    return x.dim() == 4 and x.is_floating_point()


IGNORED_CLASS = -100
"""Class index of pixels without a known target: the default `ignore_index` of torch's cross-entropy."""


def augment_targets(targets: Tensor, numbers: Tensor, settings: Augment) -> Tensor:
    """Shift and mirror targets [n, H, W] like their images; pixels shifted in from outside get the class
    IGNORED_CLASS."""
    if not settings.shift and not settings.flip:
        return targets
    return _shift_and_flip(targets[:, None], numbers[:, :3], settings.shift, settings.flip, IGNORED_CLASS)[:, 0]


def _shift_and_flip(images: Tensor, numbers: Tensor, shift: int, flip: bool, fill: int = 0) -> Tensor:
    """Shift and mirror images with a single gather; pixels shifted in from outside are filled with `fill` (default
    0)."""
    height, width = images.shape[2:]
    offsets = (numbers[:, :2] * (2 * shift + 1)).long()
    rows, columns = (
        torch.arange(size, device=images.device) + offsets[:, axis, None] for axis, size in enumerate((height, width))
    )
    if flip:
        columns = torch.where(numbers[:, 2, None] < 0.5, columns.flip(1), columns)
    padded = F.pad(images, (shift, shift, shift, shift), value=fill) if shift else images
    which = torch.arange(len(images), device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def _cutout(images: Tensor, numbers: Tensor, side: int) -> Tensor:
    """Cutout: set a square in each image to zero. Its centre is a pixel of the image; the square is clipped at the
    border."""

    def in_square(axis: int) -> Tensor:
        size = images.shape[2 + axis]
        begin = (numbers[:, axis, None] * size).long() - side // 2
        positions = torch.arange(size, device=images.device)
        return (positions >= begin) & (positions < begin + side)

    hole = in_square(0)[:, None, :, None] & in_square(1)[:, None, None, :]
    return images.masked_fill(hole, 0)


@dataclass(frozen=True)
class Mix:
    """How the images of a batch are mixed with partner images (mixup or CutMix).

    `share` is the weight of the original image's class; `images(images, partners)` returns the mixed images.
    """

    share: float
    images: Callable[[Tensor, Tensor], Tensor]


def sample_mix(settings: Augment, height: int, width: int, seed: int, index: int) -> Mix | None:
    """Sample how the batch of a step is mixed: one share, and for CutMix one box, for the whole batch.

    Returns None if mixing is off.
    """
    if not settings.mixup and not settings.cutmix:
        return None
    rng = np.random.default_rng(derive_seed(seed, "mix", index))
    boxed = rng.random() < 0.5 if settings.mixup and settings.cutmix else settings.cutmix > 0
    alpha = settings.cutmix if boxed else settings.mixup
    share = float(rng.beta(alpha, alpha))
    if not boxed:
        return Mix(share, lambda images, partners: torch.lerp(partners, images, share))
    (top, bottom), (left, right) = (_box_edges(int(rng.integers(size)), size, share) for size in (height, width))

    def paste_box(images: Tensor, partners: Tensor) -> Tensor:
        out = images.clone()
        out[:, :, top:bottom, left:right] = partners[:, :, top:bottom, left:right]
        return out

    return Mix(1 - (bottom - top) * (right - left) / (height * width), paste_box)


def _box_edges(centre: int, size: int, share: float) -> tuple[int, int]:
    """Return the begin and end of the CutMix box along an axis.

    Before it is clipped at the border, the box covers (1 - share) of the image (Yun et al. 2019, section 3.1).
    """
    half = int(size * sqrt(1 - share)) // 2
    return max(0, centre - half), min(size, centre + half)
