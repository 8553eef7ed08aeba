"""Augmentation of whole batches, where they are.

Random numbers are drawn on the CPU, the same ones for every device, and for the whole batch of all processes together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from archir.recipes.training import Augment, registered
from archir.utils.seeds import mixed
from archir_torch.lowering.generators import generator

DRAWS = 5
"""Of an image: shift down, shift right, mirrored, and the centre of what is cut out."""


def draws(count: int, seed: int, index: int) -> Tensor:
    """What is drawn for the images of a step: numbers [count, 5] from 0 to 1."""
    return torch.rand(count, DRAWS, generator=generator(seed, "augment", index))


class Further:
    """The augmentations of settings that somebody registered. Raises ArchError (A2219, A1109)."""

    def __init__(self, settings: Augment) -> None:
        self._each = [registered(one) for one in settings.also]

    def draws(self, count: int, seed: int, index: int) -> Tensor:
        """What is drawn for the images of a step: numbers [count, ...] from 0 to 1, other ones for each."""
        drawn = [
            torch.rand(count, kind.draws, generator=generator(seed, "augment", number, index))
            for number, (kind, _) in enumerate(self._each)
        ]
        return torch.cat(drawn, 1) if drawn else torch.empty(count, 0)

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """Images after all of them, one after the other."""
        for kind, options in self._each:
            images, drawn = kind.apply(images, drawn[:, : kind.draws], options), drawn[:, kind.draws :]
        return images


def augmented(images: Tensor, drawn: Tensor, settings: Augment) -> Tensor:
    """Images [n, C, H, W] shifted, mirrored and with a square cut out, as the first five of the numbers say."""
    if settings.shift or settings.flip:
        images = _moved(images, drawn[:, :3], settings.shift, settings.flip)
    if settings.cutout:
        images = _cut_out(images, drawn[:, 3:DRAWS], settings.cutout)
    return images


def is_image(x: Tensor) -> bool:
    """Whether an input is images [n, C, H, W]."""
    return x.dim() == 4 and x.is_floating_point()


LEFT_OUT = -100
"""The target of a place that nothing is known of, as torch's cross-entropy leaves it out."""


def moved_along(targets: Tensor, drawn: Tensor, settings: Augment) -> Tensor:
    """Targets [n, H, W] of images that were shifted and mirrored; what comes in from outside is left out."""
    if not settings.shift and not settings.flip:
        return targets
    return _moved(targets[:, None], drawn[:, :3], settings.shift, settings.flip, LEFT_OUT)[:, 0]


def _moved(images: Tensor, drawn: Tensor, shift: int, flip: bool, outside: int = 0) -> Tensor:
    """One gathering for shift and mirror; zeros come in, or what is `outside`."""
    height, width = images.shape[2:]
    offsets = (drawn[:, :2] * (2 * shift + 1)).long()
    rows, columns = (
        torch.arange(size, device=images.device) + offsets[:, axis, None] for axis, size in enumerate((height, width))
    )
    if flip:
        columns = torch.where(drawn[:, 2, None] < 0.5, columns.flip(1), columns)
    padded = F.pad(images, (shift, shift, shift, shift), value=outside) if shift else images
    which = torch.arange(len(images), device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def _cut_out(images: Tensor, drawn: Tensor, side: int) -> Tensor:
    """A square round a pixel of the image is zero; what of it lies outside is not there."""

    def inside(axis: int) -> Tensor:
        size = images.shape[2 + axis]
        begin = (drawn[:, axis, None] * size).long() - side // 2
        places = torch.arange(size, device=images.device)
        return (places >= begin) & (places < begin + side)

    hole = inside(0)[:, None, :, None] & inside(1)[:, None, None, :]
    return images.masked_fill(hole, 0)


@dataclass(frozen=True)
class Mix:
    """How a batch is mixed with its partners: images by a function, classes by the share of the first."""

    share: float
    images: Callable[[Tensor, Tensor], Tensor]


def mixing(settings: Augment, height: int, width: int, seed: int, index: int) -> Mix | None:
    """How the batch of a step is mixed, None if it is not: one share, and one box, for the whole batch."""
    if not settings.mixup and not settings.cutmix:
        return None
    rng = np.random.default_rng(mixed(seed, "mix", index))
    boxed = rng.random() < 0.5 if settings.mixup and settings.cutmix else settings.cutmix > 0
    alpha = settings.cutmix if boxed else settings.mixup
    share = float(rng.beta(alpha, alpha))
    if not boxed:
        return Mix(share, lambda images, partners: torch.lerp(partners, images, share))
    (top, bottom), (left, right) = (_edges(int(rng.integers(size)), size, share) for size in (height, width))

    def pasted(images: Tensor, partners: Tensor) -> Tensor:
        out = images.clone()
        out[:, :, top:bottom, left:right] = partners[:, :, top:bottom, left:right]
        return out

    return Mix(1 - (bottom - top) * (right - left) / (height * width), pasted)


def _edges(centre: int, size: int, share: float) -> tuple[int, int]:
    """The edges of the box on an axis: its area is 1 - share of the image, but for what lies outside (section 3.1)."""
    half = int(size * sqrt(1 - share)) // 2
    return max(0, centre - half), min(size, centre + half)
