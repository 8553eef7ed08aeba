"""Mixing of images and their labels: mixup and CutMix, drawn for a whole batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from archir.recipes.augmentation import Augment
from archir.utils.seeds import derive_seed


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


def partners(count: int) -> Tensor:
    """Return the row of each image's partner: neighbours are mixed with each other, and an odd last image with itself.

    Each process has whole pairs of a batch, so that no image is loaded twice.
    """
    rows = torch.arange(count)
    return torch.where(rows ^ 1 < count, rows ^ 1, rows)
