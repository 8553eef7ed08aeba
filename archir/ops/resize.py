"""Maps of other sizes: interpolated, or with channels as pixels."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from archir.diagnostics.errors import require
from archir.ir.op import Free, Gathered, Spread, Tie
from archir.ir.types import TensorType, has_axes, is_map
from archir.ops.windows import Sizes, each

FINEST = 1000
"""The largest denominator of a factor: 0.3333333 is a third."""


@dataclass(frozen=True)
class Resize(Free):
    """A map or a volume of another size: `resize([y.height, y.width], mode="bilinear")` or `resize(factor=2)`.

    `size` is one number, or height and width, of a volume behind its depth; a `factor` gives floor(factor * H) and so
    on. "nearest" takes for pixel i of n the pixel floor(i * H / n); "bilinear" and "bicubic" (with -0.75) take centres
    of pixels for their places, or with `align_corners` the corners of both maps for the same places. Nothing is
    smoothed before a map is made smaller, but with `antialias` ("bilinear" alone): then each pixel is a mean of all
    that it covers. Of volumes, "bilinear" interpolates along all three axes; "bicubic" and `antialias` are for maps.
    """

    linear: ClassVar[bool] = True
    later: ClassVar[tuple[str, ...]] = ("antialias",)
    size: Sizes | None = None
    factor: float | None = None
    mode: Literal["nearest", "bilinear", "bicubic"] = "nearest"
    align_corners: bool = False
    antialias: bool = False

    def sizes(self, axes: int) -> tuple[int, ...] | None:
        """How long so many axes become, unless a factor says it."""
        return None if self.size is None else each(self.size, axes, "size")

    @property
    def ratio(self) -> tuple[int, int]:
        """The factor, as a fraction."""
        exact = Fraction(1 if self.factor is None else self.factor).limit_denominator(FINEST)
        return exact.numerator, exact.denominator

    def infer(self, x: TensorType) -> TensorType:
        """As many channels."""
        has_axes(x, 2, 3)
        require((self.size is None) != (self.factor is None), "either `size` or `factor` is needed")
        require(not (self.align_corners and self.mode == "nearest"), '`align_corners` is of no use to "nearest"')
        smooth = self.mode == "bilinear" and not self.align_corners
        require(smooth or not self.antialias, '`antialias` is for "bilinear" without `align_corners`')
        flat = self.mode != "bicubic" and not self.antialias
        require(x.rank == 3 or flat, f'"bicubic" and `antialias` are for maps, got {x}')
        require(self.factor is None or self.factor > 0, f"`factor` must be above 0, got {self.factor}")
        times, over = self.ratio
        sizes = self.sizes(x.rank - 1) or tuple(size * times // over for size in x.spatial)
        require(min(sizes) >= 1, f"nothing is left of {x} at a size of {' x '.join(map(str, sizes))}")
        return x.with_spatial(x.channels, *sizes)

    def kernels(self, x: TensorType) -> int:
        """One; for "nearest" 4 for each axis: the places, and one that takes what is there. What is smoothed to a width
        of one is so axis by axis."""
        if self.mode == "nearest":
            return 4 * (x.rank - 1)
        return 2 if self.antialias and self.infer(x).shape[-1] == 1 else 1


@dataclass(frozen=True)
class _Dealt(Free, abstract=True):
    linear: ClassVar[bool] = True
    factor: int = 2


@dataclass(frozen=True)
class PixelShuffle(_Dealt):
    """A map `factor` times as high and wide: factor^2 channels are the pixels of one (Shi et al. 2016, eq. 4)."""

    def infer(self, x: TensorType) -> TensorType:
        """f32[C / factor^2, factor * H, factor * W]."""
        channels, height, width = is_map(x)
        require(self.factor >= 1, "`factor` must be at least 1")
        parts = self.factor**2
        require(channels % parts == 0, f"{channels} channels are no multiple of {parts}, the pixels that each becomes")
        return x.with_dims(channels // parts, height * self.factor, width * self.factor)

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """Channels one after another are one."""
        return (Gathered(0, self.factor**2),)


@dataclass(frozen=True)
class PixelUnshuffle(_Dealt):
    """The inverse of `pixel_shuffle`: squares of factor^2 pixels as channels of one."""

    def infer(self, x: TensorType) -> TensorType:
        """f32[factor^2 * C, H / factor, W / factor]."""
        channels, height, width = is_map(x)
        require(self.factor >= 1, "`factor` must be at least 1")
        fits = height % self.factor == width % self.factor == 0
        require(fits, f"{height} x {width} pixels do not split into squares of {self.factor}")
        return x.with_dims(channels * self.factor**2, height // self.factor, width // self.factor)

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """Each channel is several, one after another."""
        return (Spread(0, self.factor**2),)
