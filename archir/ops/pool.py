"""Pooling and reductions: sliding windows, adaptive sizes, global pooling, and reductions along one axis.

The reductions are mean, sum and maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Free
from archir.ir.types import TensorType, require_axes
from archir.ops.windows import Padding, Sizes, Windows, output_sizes, pads_of, per_axis, windows


@dataclass(frozen=True)
class _Pool(Free, abstract=True):
    """Base of pooling over sliding windows."""

    spatial: ClassVar[int] = 2
    kernel: Sizes
    stride: Sizes = 1
    padding: Padding = "same"

    @property
    def windows(self) -> Windows:
        """The sliding window of each axis."""
        return windows(self.spatial, self.kernel, self.stride, self.padding)

    @property
    def pads(self) -> tuple[int, ...]:
        """Padding before and after each axis, last axis first, in the order of torch.nn.functional.pad."""
        return pads_of(self.windows)

    def infer(self, x: TensorType) -> TensorType:
        """The same channels, and one position per window. Padding must not exceed half of the window's size."""
        require_axes(x, self.spatial)
        for window in self.windows:
            pad = max(window.before, window.after)
            require(pad * 2 <= window.kernel, f"padding {pad} is more than half of the window of {window.kernel}")
        return x.with_spatial(x.channels, *output_sizes(self.windows, x.spatial))

    def kernels(self, x: TensorType) -> int:
        """1 kernel launch; 2 if the padding before and after an axis differs."""
        return 1 + (not all(window.is_symmetric for window in self.windows))


@dataclass(frozen=True)
class MaxPool(_Pool):
    """Maximum of each window of a map: `max_pool([2, 1], stride=[2, 1])` halves the height.

    `kernel`, `stride` and `padding` are as in `conv`; padded positions are never the maximum.
    """


@dataclass(frozen=True)
class AvgPool(_Pool):
    """Mean of each window of a map.

    With `count_padding`, padded positions count as zeros, otherwise they are ignored. `kernel`, `stride` and `padding`
    are as in `conv`.
    """

    linear: ClassVar[bool] = True
    count_padding: bool = False

    def kernels(self, x: TensorType) -> int:
        """1 kernel launch. If the padding before and after an axis differs: 2 with `count_padding`, else 6.

        The 6 kernels include those that count the pixels of each window.
        """
        return 1 if all(window.is_symmetric for window in self.windows) else 2 if self.count_padding else 6


@dataclass(frozen=True)
class MaxPool1d(MaxPool):
    """Maximum of each window along the tokens of f32[N, D]: `max_pool1d(2, stride=2)`."""

    spatial: ClassVar[int] = 1


@dataclass(frozen=True)
class AvgPool1d(AvgPool):
    """Mean of each window along the tokens of f32[N, D]; `count_padding` as in `avg_pool`."""

    spatial: ClassVar[int] = 1


@dataclass(frozen=True)
class MaxPool3d(MaxPool):
    """Maximum of each window of a volume f32[C, D, H, W]; `kernel`, `stride` and `padding` as in `conv3d`."""

    spatial: ClassVar[int] = 3


@dataclass(frozen=True)
class AvgPool3d(AvgPool):
    """Mean of each window of a volume f32[C, D, H, W]; `count_padding` as in `avg_pool`."""

    spatial: ClassVar[int] = 3

    def kernels(self, x: TensorType) -> int:
        """Kernel launches as in `avg_pool`; also 2 or 6 if the volume is smaller than the window.

        Such a volume is padded first.
        """
        fits = all(window.kernel <= size for window, size in zip(self.windows, x.spatial, strict=True))
        return super().kernels(x) if fits else 2 if self.count_padding else 6


@dataclass(frozen=True)
class AdaptiveAvgPool(Free):
    """Mean of each region of a map, which is divided into a grid of `size` by `size` or [rows, columns] regions.

    `adaptive_avg_pool(7)` gives a 7 x 7 map. Region i of n covers the pixels from floor(i * H / n) up to, but not
    including, ceil((i + 1) * H / n); regions overlap if n does not divide H.
    """

    linear: ClassVar[bool] = True
    size: Sizes

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows and columns of the result."""
        return per_axis(self.size, 2, "size")

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[C, rows, columns]."""
        require_axes(x, 2)
        for size, pixels in zip(self.sizes, x.spatial, strict=True):
            require(1 <= size <= pixels, f"{pixels} pixels do not split into {size} regions of at least one pixel")
        return x.with_spatial(x.channels, *self.sizes)


@dataclass(frozen=True)
class AdaptiveMaxPool(AdaptiveAvgPool):
    """Maximum of each region of a map; regions as in `adaptive_avg_pool`."""

    linear: ClassVar[bool] = False


@dataclass(frozen=True)
class GlobalAvgPool(Free):
    """Mean over all positions of a map, a volume or tokens: a vector f32[C].

    With `keep`, the result keeps the spatial axes with size 1, as f32[C, 1, 1] for a map.
    """

    linear: ClassVar[bool] = True
    keep: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[C]; with `keep`, f32[C, 1, 1] for a map and f32[C, 1, 1, 1] for a volume."""
        return _global_pool_type(x, self.keep)


@dataclass(frozen=True)
class GlobalMaxPool(Free):
    """Maximum over all positions of a map, a volume or tokens; shapes as in `global_avg_pool`."""

    keep: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[C]; with `keep`, f32[C, 1, 1] for a map and f32[C, 1, 1, 1] for a volume."""
        return _global_pool_type(x, self.keep)


@dataclass(frozen=True)
class _AxisReduction(Free, abstract=True):
    """Base of reductions along one axis."""

    axis: int

    def infer(self, x: TensorType) -> TensorType:
        """The type of x with size 1 along the axis."""
        require(-x.rank <= self.axis < x.rank, f"axis {self.axis} of {x} does not exist")
        return x.with_dims(*(1 if i == self.axis % x.rank else dim for i, dim in enumerate(x.shape)))


@dataclass(frozen=True)
class MeanOver(_AxisReduction):
    """Mean along one axis, which keeps size 1 in the result. Axes are counted without the batch axis."""

    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class SumOver(_AxisReduction):
    """Sum along one axis; shapes as in `mean_over`."""

    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class MaxOver(_AxisReduction):
    """Maximum along one axis; shapes as in `mean_over`."""


def _global_pool_type(x: TensorType, keep: bool) -> TensorType:
    """Return the result type of a global pooling of x. Raises RuleError if x is not a map, a volume or tokens."""
    require_axes(x, *((2, 3) if keep else (2, 1, 3)))
    if keep:
        return x.with_dims(x.channels, *(1 for _ in x.spatial))
    return x.with_dims(x.channels)
