"""How images of any size become images of the net's input size: resized by the shorter side, then cropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # Pillow is imported with the first image
    from PIL import Image

Interpolation = Literal["bilinear", "bicubic"]
Box = tuple[int, int, int, int]
"""Top, left, height and width of a part of an image, in pixels."""
CROP_ATTEMPTS = 10
"""Number of random crops that are drawn for an image until one fits into it."""
CROP_DRAWS = 2 * CROP_ATTEMPTS + 2
"""Random numbers of a random crop: area and ratio of each attempt, then the position."""


@dataclass(frozen=True)
class Resizing:
    """How images are resized: an image is resized such that `center_crop` of its shorter side is the net's size; then
    its centre is cropped.

    With 0.875 and a net of 224 pixels, the shorter side becomes 256 pixels, as usual for ImageNet.
    """

    center_crop: float = 1.0
    interpolation: Interpolation = "bilinear"

    def resized_size(self, height: int, width: int, size: tuple[int, int]) -> tuple[int, int]:
        """Return the height and width to which an image is resized before the net's `size` is cropped."""
        rows, columns = (int(side / self.center_crop) for side in size)
        if width * rows >= height * columns:
            return rows, max(columns, int(rows * width / height))
        return max(rows, int(columns * height / width)), columns

    def center_box(self, height: int, width: int, size: tuple[int, int]) -> Box:
        """Return the box of the net's `size` at the centre of a resized image."""
        top, left = (round((whole - side) / 2) for whole, side in ((height, size[0]), (width, size[1])))
        return top, left, *size

    def fit(self, picture: Image.Image, size: tuple[int, int], nearest: bool = False) -> Image.Image:
        """Resize and crop an image to [H, W]. With `nearest`, each pixel is one of the original pixels, as masks need
        it."""
        height, width = self.resized_size(picture.height, picture.width, size)
        picture = self._resize(picture, (height, width), nearest)
        if (height, width) == size:
            return picture
        top, left, rows, columns = self.center_box(height, width, size)
        return picture.crop((left, top, left + columns, top + rows))

    def fit_box(self, picture: Image.Image, box: Box, size: tuple[int, int]) -> Image.Image:
        """Resize a part of an image to [H, W]."""
        top, left, rows, columns = box
        return self._resize(picture.crop((left, top, left + columns, top + rows)), size)

    def _resize(self, picture: Image.Image, size: tuple[int, int], nearest: bool = False) -> Image.Image:
        from PIL import Image

        if picture.size == size[::-1]:
            return picture
        kind = "NEAREST" if nearest else self.interpolation.upper()
        return picture.resize(size[::-1], Image.Resampling[kind])


def random_crop_boxes(
    heights: Sequence[int], widths: Sequence[int], draws: NDArray[np.float64], area: tuple[float, float],
    ratio: tuple[float, float],
) -> NDArray[np.int64]:  # fmt: skip
    """Return a random box for each image, [n, 4]: its share of the area and its ratio of width to height are in the
    given ranges.

    `draws` are random numbers in [0, 1), [n, CROP_DRAWS]. If no attempt fits into the image, the box is the largest at
    the centre whose ratio is in the range. Source: Szegedy et al. 2015, section 6; torchvision's `RandomResizedCrop`.
    """
    height, width = np.asarray(heights, np.float64)[:, None], np.asarray(widths, np.float64)[:, None]
    attempts = draws[:, : 2 * CROP_ATTEMPTS].reshape(-1, CROP_ATTEMPTS, 2)
    areas = height * width * (area[0] + (area[1] - area[0]) * attempts[..., 0])
    low, high = np.log(ratio)
    ratios = np.exp(low + (high - low) * attempts[..., 1])
    rows, columns = np.rint(np.sqrt(areas / ratios)), np.rint(np.sqrt(areas * ratios))
    fits = (rows >= 1) & (rows <= height) & (columns >= 1) & (columns <= width)
    first = fits.argmax(1)[:, None]
    rows, columns = np.take_along_axis(rows, first, 1), np.take_along_axis(columns, first, 1)
    top, left = (
        np.floor(draws[:, [position]] * (whole - part + 1))
        for position, whole, part in ((-2, height, rows), (-1, width, columns))
    )
    exists = fits.any(1, keepdims=True)
    whole_ratio = width / height
    center_rows = np.where(whole_ratio < ratio[0], np.rint(width / ratio[0]), height)
    center_columns = np.where(whole_ratio > ratio[1], np.rint(height * ratio[1]), width)
    centers = (height - center_rows) // 2, (width - center_columns) // 2, center_rows, center_columns
    boxes = [np.where(exists, *pair) for pair in zip((top, left, rows, columns), centers, strict=True)]
    return np.concatenate(boxes, 1).astype(np.int64)
