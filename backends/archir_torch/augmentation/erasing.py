"""Random erasing: a rectangle of an image becomes noise or the mean colour (Zhong et al. 2020)."""

from __future__ import annotations

import torch
from torch import Tensor

from archir.recipes.augmentation import RandomErasing

ATTEMPTS = 10
"""Number of rectangles that are drawn until one fits."""
ERASE_DRAWS = 1 + 4 * ATTEMPTS
"""Random numbers of an image: whether it is erased; area, ratio, row and column of each attempt."""


def erased_boxes(draws: Tensor, height: int, width: int, settings: RandomErasing) -> Tensor:
    """Return the rectangle that is erased of each image: top, left, height, width [n, 4]; heights of 0 for none.

    `draws` are random numbers in [0, 1), [n, ERASE_DRAWS].
    """
    attempts = draws[:, 1:].double().reshape(-1, ATTEMPTS, 4)
    areas = height * width * (settings.area[0] + (settings.area[1] - settings.area[0]) * attempts[..., 0])
    low, high = torch.tensor(settings.ratio, dtype=torch.float64).log()
    ratios = (low + (high - low) * attempts[..., 1]).exp()
    rows, columns = (areas * ratios).sqrt().round(), (areas / ratios).sqrt().round()
    fits = (rows < height) & (columns < width)
    top = (attempts[..., 2] * (height - rows + 1)).floor()
    left = (attempts[..., 3] * (width - columns + 1)).floor()
    first = fits.long().argmax(1)[:, None]
    boxes = torch.stack([part.gather(1, first)[:, 0] for part in (top, left, rows, columns)], 1).long()
    erased = (draws[:, 0] < settings.probability) & fits.any(1)
    return torch.where(erased[:, None], boxes, 0)


def erase(images: Tensor, boxes: Tensor, noise: Tensor | None) -> Tensor:
    """Set a rectangle of each image [n, C, H, W] to noise [C, H, W], or to 0, the mean colour.

    The rectangles of all images are cut out of the same noise, at different places unless they are at the same place.
    """
    top, left, rows, columns = boxes.to(images.device, non_blocking=True)[:, :, None].unbind(1)
    inside = []
    for begin, length, size in ((top, rows, images.shape[2]), (left, columns, images.shape[3])):
        positions = torch.arange(size, device=images.device)
        inside.append((positions >= begin) & (positions < begin + length))
    hole = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    if noise is None:
        return images.masked_fill(hole, 0)
    return torch.where(hole, noise.to(images.device, non_blocking=True), images)
