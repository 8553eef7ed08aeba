"""Resizing of maps and volumes: interpolation, and pixel shuffling (channels to pixels and back)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from archir.diagnostics.errors import require
from archir.ir.op import ChannelMap, Free, GroupMap, RepeatMap
from archir.ir.types import TensorType, is_map, require_axes
from archir.ops.windows import Sizes, per_axis

MAX_DENOMINATOR = 1000
"""Maximum denominator of a resize factor, which is rounded to a fraction: 0.3333333 becomes 1/3."""


@dataclass(frozen=True)
class Resize(Free):
    """A map or volume interpolated to another size: `resize([y.height, y.width], mode="bilinear")`.

    `size` is one number for all axes, [height, width] for a map, or [depth, height, width] for a volume. Instead of
    `size`, a `factor` can be given: `resize(factor=2)` gives floor(factor * H) and so on. The modes are:

    - "nearest": output pixel i of n is input pixel floor(i * H / n);
    - "bilinear" and "bicubic" (with coefficient -0.75): the centres of pixels are aligned or, with `align_corners`, the
      corners of both maps.

    Shrinking a map does not low-pass filter it, unless `antialias` is set ("bilinear" only): each output pixel is then
    a mean of all input pixels that it covers. For volumes, "bilinear" interpolates along all three axes; "bicubic" and
    `antialias` are for maps only.
    """

    linear: ClassVar[bool] = True
    size: Sizes | None = None
    factor: float | None = None
    mode: Literal["nearest", "bilinear", "bicubic"] = "nearest"
    align_corners: bool = False
    antialias: bool = False

    def sizes(self, axes: int) -> tuple[int, ...] | None:
        """Return the size of each of the `axes` spatial axes of the result; None if `factor` determines them."""
        return None if self.size is None else per_axis(self.size, axes, "size")

    @property
    def ratio(self) -> tuple[int, int]:
        """The factor as numerator and denominator of a fraction."""
        exact = Fraction(1 if self.factor is None else self.factor).limit_denominator(MAX_DENOMINATOR)
        return exact.numerator, exact.denominator

    def infer(self, x: TensorType) -> TensorType:
        """The same channels, with the new size."""
        require_axes(x, 2, 3)
        require((self.size is None) != (self.factor is None), "give either `size` or `factor`")
        require(not (self.align_corners and self.mode == "nearest"), '`align_corners` has no effect with "nearest"')
        smooth = self.mode == "bilinear" and not self.align_corners
        require(smooth or not self.antialias, '`antialias` is for "bilinear" without `align_corners`')
        fits_volumes = self.mode != "bicubic" and not self.antialias
        require(x.rank == 3 or fits_volumes, f'"bicubic" and `antialias` are for maps, got {x}')
        require(self.factor is None or self.factor > 0, f"`factor` must be above 0, got {self.factor}")
        numerator, denominator = self.ratio
        sizes = self.sizes(x.rank - 1) or tuple(size * numerator // denominator for size in x.spatial)
        require(min(sizes) >= 1, f"nothing is left of {x} at a size of {' x '.join(map(str, sizes))}")
        return x.with_spatial(x.channels, *sizes)

    def kernels(self, x: TensorType) -> int:
        """1 kernel launch; for "nearest", 4 per axis: 3 to compute the indices and 1 for the lookup.

        With `antialias` and a result of width 1, there are 2, because the axes are then filtered one after the other.
        """
        if self.mode == "nearest":
            return 4 * (x.rank - 1)
        return 2 if self.antialias and self.infer(x).shape[-1] == 1 else 1


@dataclass(frozen=True)
class _PixelRearrangement(Free, abstract=True):
    """Base of operations that move elements between channels and squares of factor x factor pixels."""

    linear: ClassVar[bool] = True
    factor: int = 2


@dataclass(frozen=True)
class PixelShuffle(_PixelRearrangement):
    """A map of `factor` times the height and width: factor^2 channels become the pixels of one channel.

    (Shi et al. 2016, eq. 4)
    """

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[C / factor^2, factor * H, factor * W]."""
        channels, height, width = is_map(x)
        require(self.factor >= 1, "`factor` must be at least 1")
        parts = self.factor**2
        require(channels % parts == 0, f"{channels} channels are not a multiple of {parts}, the pixels per channel")
        return x.with_dims(channels // parts, height * self.factor, width * self.factor)

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return a GroupMap: factor^2 consecutive channels of the operand become one channel of the result."""
        return (GroupMap(0, self.factor**2),)


@dataclass(frozen=True)
class PixelUnshuffle(_PixelRearrangement):
    """The inverse of `pixel_shuffle`: the pixels of each factor x factor square become factor^2 channels."""

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[factor^2 * C, H / factor, W / factor]."""
        channels, height, width = is_map(x)
        require(self.factor >= 1, "`factor` must be at least 1")
        is_divisible = height % self.factor == width % self.factor == 0
        require(is_divisible, f"{height} x {width} pixels do not split into squares of {self.factor}")
        return x.with_dims(channels * self.factor**2, height // self.factor, width // self.factor)

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return a RepeatMap: each channel of the operand becomes factor^2 consecutive channels of the result."""
        return (RepeatMap(0, self.factor**2),)
