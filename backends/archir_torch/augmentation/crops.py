"""Random crops, resized to the net's input: of image files as they are decoded, of stored images by interpolation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from archir.data.resizing import Interpolation, random_crop_boxes
from archir.recipes.augmentation import ResizedCrop
from archir_torch.data.pixels import DecodedFiles, Normalised, Pixels, RowSubset, to_channels, to_input_size


def select_random_crops(pixels: Pixels, rows: Tensor, draws: Tensor, settings: ResizedCrop) -> Tensor:
    """Return a random crop of each of the images in `rows`, in the size and with the normalisation of `pixels`.

    `draws` are random numbers in [0, 1), [k, CROP_DRAWS], on the CPU. Files are cropped at their original size.
    """
    pixels, rows = _in_whole(pixels, rows)
    if not isinstance(pixels, Normalised):
        images = pixels[rows]
        return random_crops(images, draws, settings, images.shape[2:], "bilinear")
    raw, rows = _in_whole(pixels.raw, rows)
    if isinstance(raw, DecodedFiles):
        images = raw.random_crops(rows, draws.double().numpy(), settings.area, settings.ratio)
        return pixels.normalise(to_input_size(images, pixels.size, pixels.resizing))
    images = to_channels(raw[rows], pixels.size[0])
    return pixels.normalise(random_crops(images, draws, settings, pixels.size[1:], pixels.resizing.interpolation))


def _in_whole(pixels: Pixels, rows: Tensor) -> tuple[Pixels, Tensor]:
    """Return the samples of which others are a subset, and the numbers of the rows among them."""
    while isinstance(pixels, RowSubset):
        subset = pixels
        pixels, rows = subset.pixels, subset.rows[rows]
    return pixels, rows


def are_images(pixels: Pixels) -> bool:
    """Return True if the samples of an input are images [C, H, W] that are not integers."""
    while isinstance(pixels, RowSubset):
        pixels = pixels.pixels
    if isinstance(pixels, Normalised):
        return len(pixels.size) == 3
    return isinstance(pixels, Tensor) and pixels.dim() == 4 and pixels.is_floating_point()


def random_crops(
    images: Tensor, draws: Tensor, settings: ResizedCrop, size: tuple[int, ...], interpolation: Interpolation
) -> Tensor:
    """Return a random crop of each image [n, C, h, w], resized to [n, C, H, W]."""
    return resize_boxes(images, _boxes(images, draws, settings), size, interpolation)


def random_crops_of_targets(targets: Tensor, draws: Tensor, settings: ResizedCrop) -> Tensor:
    """Return a random crop of each target [n, H, W], in the same size; each value is one of the original ones."""
    boxes = _boxes(targets, draws, settings)
    rows, columns = (
        (boxes[:, axis, None] + ((torch.arange(size) + 0.5) * boxes[:, axis + 2, None] / size).long())
        .to(targets.device, non_blocking=True)
        for axis, size in enumerate(targets.shape[1:])
    )  # fmt: skip
    which = torch.arange(len(targets), device=targets.device)[:, None, None]
    return targets[which, rows[:, :, None], columns[:, None, :]]


def _boxes(images: Tensor, draws: Tensor, settings: ResizedCrop) -> Tensor:
    """Return a random box for each image [n, ..., H, W]: top, left, height, width [n, 4]."""
    count, (height, width) = len(images), images.shape[-2:]
    numbers = draws.double().numpy()
    boxes = random_crop_boxes([height] * count, [width] * count, numbers, settings.area, settings.ratio)
    return torch.from_numpy(boxes)


def resize_boxes(images: Tensor, boxes: Tensor, size: tuple[int, ...], interpolation: Interpolation) -> Tensor:
    """Resize a box of each image [n, C, h, w] to [n, C, H, W], with antialiasing.

    A box is top, left, height, width: [n, 4]. The interpolation is separable: two matrix products with the weights of
    rows and of columns. It equals that of `torch.nn.functional.interpolate` on the box alone.
    """
    rows, columns = (
        _weights(boxes[:, axis], boxes[:, axis + 2], images.shape[2 + axis], size[axis], interpolation)
        .to(images.device, images.dtype, non_blocking=True)
        for axis in (0, 1)
    )  # fmt: skip
    return torch.einsum("nyh,nchw,nxw->ncyx", rows, images, columns)


def _weights(begin: Tensor, length: Tensor, whole: int, size: int, interpolation: Interpolation) -> Tensor:
    """Return the weights [n, size, whole] of the pixels along an axis, for boxes that begin at `begin`."""
    kernel, radius = _KERNELS[interpolation]
    scale = (length.double() / size)[:, None, None]
    stretch = scale.clamp(min=1)
    centers = (torch.arange(size)[:, None] + 0.5) * scale
    positions = torch.arange(whole) - begin[:, None, None]
    weights = kernel((positions + 0.5 - centers) / stretch)
    first = (centers - radius * stretch + 0.5).floor()
    last = (centers + radius * stretch + 0.5).floor()
    inside = (positions >= 0) & (positions < length[:, None, None]) & (positions >= first) & (positions < last)
    weights = torch.where(inside, weights, 0)
    return (weights / weights.sum(2, keepdim=True)).float()


def _bilinear(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def _bicubic(x: Tensor) -> Tensor:
    """Cubic convolution with a = -0.5, as in Pillow and in torch's antialiased interpolation (Keys 1981)."""
    x = x.abs()
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0))


_KERNELS: dict[Interpolation, tuple[Callable[[Tensor], Tensor], int]] = {
    "bilinear": (_bilinear, 1), "bicubic": (_bicubic, 2),
}  # fmt: skip
"""Function and radius of each kind of interpolation."""
