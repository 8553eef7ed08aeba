"""Changes of colour and geometry of images, for many images at once, each with a level of its own.

Images are [n, C, H, W] with C = 1 or 3: whole numbers from 0 to 255 in float32. Results are rounded as Pillow does,
whose operations are those of the papers. Levels are [n].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Operation = Callable[[Tensor, Tensor], Tensor]
"""Function (images, levels) -> images."""
OPERATIONS: dict[str, Operation] = {}
"""All operations by name."""


def operation(name: str) -> Callable[[Operation], Operation]:
    """Return a decorator that registers an operation."""

    def register(function: Operation) -> Operation:
        OPERATIONS[name] = function
        return function

    return register


def gray(images: Tensor) -> Tensor:
    """Return the luminance of images, [n, 1, H, W] (ITU-R 601-2, as Pillow computes it)."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    return ((red * 19595 + green * 38470 + blue * 7471 + 32768) / 65536).floor()[:, None]


def blend(first: Tensor, second: Tensor, levels: Tensor) -> Tensor:
    """Return `first + level * (second - first)`, cut off to whole numbers from 0 to 255."""
    return (first + levels[:, None, None, None] * (second - first)).clamp(0, 255).floor()


# colours


@operation("brightness")
def brightness(images: Tensor, levels: Tensor) -> Tensor:
    """Blend images with black; level 1 is the image."""
    return blend(torch.zeros_like(images), images, levels)


@operation("contrast")
def contrast(images: Tensor, levels: Tensor) -> Tensor:
    """Blend images with their mean luminance; level 1 is the image."""
    mean = (gray(images).mean((1, 2, 3), keepdim=True) + 0.5).floor()
    return blend(mean, images, levels)


@operation("color")
def color(images: Tensor, levels: Tensor) -> Tensor:
    """Blend images with their luminance (saturation); level 1 is the image."""
    return blend(gray(images), images, levels)


@operation("sharpness")
def sharpness(images: Tensor, levels: Tensor) -> Tensor:
    """Blend images with a smoothed copy; level 1 is the image. Pixels of the border stay."""
    kernel = torch.ones(3, 3)
    kernel[1, 1] = 5
    kernel = kernel.to(images.device, non_blocking=True)
    channels = images.shape[1]
    smooth = F.conv2d(images, kernel.expand(channels, 1, 3, 3), groups=channels)
    smoothed = images.clone()
    smoothed[:, :, 1:-1, 1:-1] = (smooth / 13 + 0.5).floor()
    return blend(smoothed, images, levels)


@operation("hue")
def hue(images: Tensor, levels: Tensor) -> Tensor:
    """Rotate the hue by a share of the colour circle, from -0.5 to 0.5."""
    if images.shape[1] == 1:
        return images
    pixels = images / 255
    largest, smallest = pixels.amax(1), pixels.amin(1)
    difference = largest - smallest
    divisor = torch.where(difference == 0, 1, difference)
    red, green, blue = pixels.unbind(1)
    parts = [(largest - channel) / divisor for channel in (red, green, blue)]
    angle = torch.where(
        largest == red, parts[2] - parts[1],
        torch.where(largest == green, 2 + parts[0] - parts[2], 4 + parts[1] - parts[0]),
    )  # fmt: skip
    turned = (angle / 6 + levels[:, None, None]) % 1
    saturation = difference / torch.where(largest == 0, 1, largest)
    offsets = torch.tensor([5.0, 3.0, 1.0]).to(images.device, non_blocking=True)[:, None, None]
    sector = (offsets + turned[:, None] * 6) % 6
    share = torch.minimum(sector, 4 - sector).clamp(0, 1)
    return ((largest[:, None] * (1 - saturation[:, None] * share)) * 255).round()


@operation("invert")
def invert(images: Tensor, levels: Tensor) -> Tensor:
    """Return the negative; levels are ignored."""
    return 255 - images


@operation("posterize")
def posterize(images: Tensor, levels: Tensor) -> Tensor:
    """Keep the given number of the highest bits of each colour."""
    step = 2 ** (8 - levels.floor())[:, None, None, None]
    return (images / step).floor() * step


@operation("solarize")
def solarize(images: Tensor, levels: Tensor) -> Tensor:
    """Invert the pixels from the level on."""
    return torch.where(images < levels[:, None, None, None], images, 255 - images)


@operation("solarize_add")
def solarize_add(images: Tensor, levels: Tensor) -> Tensor:
    """Add the level to the pixels below 128."""
    return torch.where(images < 128, (images + levels[:, None, None, None]).clamp(max=255), images)


@operation("autocontrast")
def autocontrast(images: Tensor, levels: Tensor) -> Tensor:
    """Stretch each channel to the range from 0 to 255; levels are ignored."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    scale = 255 / torch.where(high > low, high - low, 255).double()
    stretched = (images * scale - low * scale).clamp(0, 255).floor().float()
    return torch.where(high > low, stretched, images)


@operation("equalize")
def equalize(images: Tensor, levels: Tensor) -> Tensor:
    """Make the histogram of each channel uniform; levels are ignored."""
    values = images.flatten(2).long()
    histogram = torch.zeros(*values.shape[:2], 256, dtype=torch.int64, device=images.device)
    histogram.scatter_add_(2, values, torch.ones_like(values))
    numbers = torch.arange(256, device=images.device)
    last = torch.where(histogram > 0, numbers, -1).amax(2, keepdim=True)
    step = (values.shape[2] - histogram.gather(2, last)) // 255
    before = histogram.cumsum(2) - histogram
    table = ((before + step // 2) // step.clamp(min=1)).clamp(0, 255)
    table = torch.where(step > 0, table, numbers)
    return table.gather(2, values).reshape(images.shape).float()


# geometry


def affine(images: Tensor, matrices: Tensor) -> Tensor:
    """Return images whose pixel at (x, y) is that of the original at the matrix [2, 3] times (x, y, 1), interpolated.

    Coordinates are in pixels, (0, 0) is the upper left corner of the image, and pixels from outside are `FILL`.
    """
    height, width = images.shape[2:]
    columns, rows = (torch.arange(size, device=images.device, dtype=torch.float32) + 0.5 for size in (width, height))
    grid = torch.stack((columns.expand(height, width), rows[:, None].expand(height, width)), -1)
    source = torch.einsum("nij,yxj->nyxi", matrices[:, :, :2], grid) + matrices[:, None, None, :, 2]
    size = torch.tensor([width, height]).to(images.device, non_blocking=True)
    moved = F.grid_sample(images, source * 2 / size - 1, padding_mode="border", align_corners=False).round()
    inside = ((source >= 0) & (source < size)).all(-1)
    return torch.where(inside[:, None], moved, FILL)


FILL = 128.0
"""Grey of the pixels from outside of an image."""


def _matrices(levels: Tensor, row: int, column: int) -> Tensor:
    """Return identity matrices [n, 2, 3] with the levels in a row and column."""
    matrices = torch.eye(2, 3, device=levels.device).repeat(len(levels), 1, 1)
    matrices[:, row, column] = levels
    return matrices


@operation("shear_x")
def shear_x(images: Tensor, levels: Tensor) -> Tensor:
    """Shear horizontally: a row is moved by the level times its distance from the upper border."""
    return affine(images, _matrices(levels, 0, 1))


@operation("shear_y")
def shear_y(images: Tensor, levels: Tensor) -> Tensor:
    """Shear vertically: a column is moved by the level times its distance from the left border."""
    return affine(images, _matrices(levels, 1, 0))


@operation("translate_x")
def translate_x(images: Tensor, levels: Tensor) -> Tensor:
    """Move to the left by the level times the width."""
    return affine(images, _matrices(levels * images.shape[3], 0, 2))


@operation("translate_y")
def translate_y(images: Tensor, levels: Tensor) -> Tensor:
    """Move up by the level times the height."""
    return affine(images, _matrices(levels * images.shape[2], 1, 2))


@operation("rotate")
def rotate(images: Tensor, levels: Tensor) -> Tensor:
    """Rotate counterclockwise about the centre, by degrees."""
    angle = levels * (math.pi / 180)
    x, y = images.shape[3] / 2, images.shape[2] / 2
    sine, cosine = angle.sin(), angle.cos()
    first = torch.stack((cosine, -sine, x - x * cosine + y * sine), -1)
    second = torch.stack((sine, cosine, y - x * sine - y * cosine), -1)
    return affine(images, torch.stack((first, second), 1))
