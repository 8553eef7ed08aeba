"""Shifts, flips and Cutout of the images of a batch, on the device that holds them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.recipes.augmentation import Augment

SHIFT_DRAWS = 5
"""Random numbers of an image: shift down, shift right, mirror, and row and column of the Cutout centre."""
IGNORED_CLASS = -100
"""Class index of pixels without a known target: the default `ignore_index` of torch's cross-entropy."""


def shift_and_flip_targets(targets: Tensor, numbers: Tensor, settings: Augment) -> Tensor:
    """Shift and mirror targets [n, H, W] like their images; pixels shifted in from outside get the class
    IGNORED_CLASS."""
    if not settings.shift and not settings.flip:
        return targets
    return shift_and_flip(targets[:, None], numbers[:, :3], settings.shift, settings.flip, IGNORED_CLASS)[:, 0]


def shift_and_flip(images: Tensor, numbers: Tensor, shift: int, flip: bool, fill: int = 0) -> Tensor:
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


def cutout(images: Tensor, numbers: Tensor, side: int) -> Tensor:
    """Cutout: set a square in each image to zero. Its centre is a pixel of the image; the square is clipped at the
    border."""

    def in_square(axis: int) -> Tensor:
        size = images.shape[2 + axis]
        begin = (numbers[:, axis, None] * size).long() - side // 2
        positions = torch.arange(size, device=images.device)
        return (positions >= begin) & (positions < begin + side)

    hole = in_square(0)[:, None, :, None] & in_square(1)[:, None, None, :]
    return images.masked_fill(hole, 0)
