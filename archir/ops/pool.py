"""Pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Free
from archir.ir.types import TensorType, has_axes
from archir.ops.windows import Padding, Sizes, Windows, each, pads_of, slid, windows


@dataclass(frozen=True)
class _Pool(Free, abstract=True):
    spatial: ClassVar[int] = 2
    kernel: Sizes
    stride: Sizes = 1
    padding: Padding = "same"

    @property
    def windows(self) -> Windows:
        """One for each axis."""
        return windows(self.spatial, self.kernel, self.stride, self.padding)

    @property
    def pads(self) -> tuple[int, ...]:
        """Padding before and after, the last axis first."""
        return pads_of(self.windows)

    def infer(self, x: TensorType) -> TensorType:
        """The same channels, of as many positions as there are windows."""
        has_axes(x, self.spatial)
        for window in self.windows:
            most = max(window.before, window.after)
            require(most * 2 <= window.kernel, f"padding {most} is more than half of the window of {window.kernel}")
        return x.with_spatial(x.channels, *slid(self.windows, x.spatial))

    def kernels(self, x: TensorType) -> int:
        """One; two where the zeros before and after differ in number."""
        return 1 + (not all(window.even for window in self.windows))


@dataclass(frozen=True)
class MaxPool(_Pool):
    """Largest value of each window of a map: `max_pool([2, 1], stride=[2, 1])` halves the height.

    `kernel`, `stride` and `padding` are as in `conv`; padding never wins.
    """


@dataclass(frozen=True)
class AvgPool(_Pool):
    """Mean of each window of a map, of its own pixels only unless `count_padding`; the others are as in `conv`."""

    linear: ClassVar[bool] = True
    count_padding: bool = False

    def kernels(self, x: TensorType) -> int:
        """One; where the padding before and after differs, two, or six that count the pixels of each window."""
        return 1 if all(window.even for window in self.windows) else 2 if self.count_padding else 6


@dataclass(frozen=True)
class MaxPool1d(MaxPool):
    """Largest value of each window along the tokens of f32[N, D]: `max_pool1d(2, stride=2)`."""

    spatial: ClassVar[int] = 1


@dataclass(frozen=True)
class AvgPool1d(AvgPool):
    """Mean of each window along the tokens of f32[N, D]; `count_padding` as in `avg_pool`."""

    spatial: ClassVar[int] = 1


@dataclass(frozen=True)
class MaxPool3d(MaxPool):
    """Largest value of each window of a volume f32[C, D, H, W]; `kernel`, `stride` and `padding` as in `conv3d`."""

    spatial: ClassVar[int] = 3


@dataclass(frozen=True)
class AvgPool3d(AvgPool):
    """Mean of each window of a volume f32[C, D, H, W]; `count_padding` as in `avg_pool`."""

    spatial: ClassVar[int] = 3

    def kernels(self, x: TensorType) -> int:
        """As in `avg_pool`; a volume smaller than the window is padded first."""
        whole = all(window.kernel <= size for window, size in zip(self.windows, x.spatial, strict=True))
        return super().kernels(x) if whole else 2 if self.count_padding else 6


@dataclass(frozen=True)
class AdaptiveAvgPool(Free):
    """Means of a map's pixels, of `size` by `size` parts or of [rows, columns]: `adaptive_avg_pool(7)`.

    Part i of n has the pixels floor(i * H / n) up to ceil((i + 1) * H / n): where n does not divide H, parts overlap.
    """

    linear: ClassVar[bool] = True
    size: Sizes

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows and columns."""
        return each(self.size, 2, "size")

    def infer(self, x: TensorType) -> TensorType:
        """f32[C, rows, columns]."""
        has_axes(x, 2)
        for size, whole in zip(self.sizes, x.spatial, strict=True):
            require(1 <= size <= whole, f"{whole} pixels do not make {size} parts of at least one")
        return x.with_spatial(x.channels, *self.sizes)


@dataclass(frozen=True)
class AdaptiveMaxPool(AdaptiveAvgPool):
    """Largest values of a map's pixels, in parts as in `adaptive_avg_pool`."""

    linear: ClassVar[bool] = False


@dataclass(frozen=True)
class GlobalAvgPool(Free):
    """Mean over all positions: a map, a volume or tokens to a vector; `keep` leaves a map f32[C, 1, 1], or a volume."""

    linear: ClassVar[bool] = True
    keep: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """f32[C], or f32[C, 1, 1] of a map, f32[C, 1, 1, 1] of a volume."""
        return _pooled(x, self.keep)


@dataclass(frozen=True)
class GlobalMaxPool(Free):
    """Largest value over all positions, shapes as in `global_avg_pool`."""

    keep: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """f32[C], or f32[C, 1, 1] of a map, f32[C, 1, 1, 1] of a volume."""
        return _pooled(x, self.keep)


@dataclass(frozen=True)
class _Over(Free, abstract=True):
    axis: int

    def infer(self, x: TensorType) -> TensorType:
        """The type of x with 1 along the axis."""
        require(-x.rank <= self.axis < x.rank, f"axis {self.axis} of {x} does not exist")
        return x.with_dims(*(1 if i == self.axis % x.rank else dim for i, dim in enumerate(x.shape)))


@dataclass(frozen=True)
class MeanOver(_Over):
    """Mean along one axis, counted without the batch axis; the axis is kept with size 1."""

    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class SumOver(_Over):
    """Sum along one axis, shapes as in `mean_over`."""

    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class MaxOver(_Over):
    """Largest value along one axis, shapes as in `mean_over`."""


def _pooled(x: TensorType, keep: bool) -> TensorType:
    has_axes(x, *((2, 3) if keep else (2, 1, 3)))
    if keep:
        return x.with_dims(x.channels, *(1 for _ in x.spatial))
    return x.with_dims(x.channels)
