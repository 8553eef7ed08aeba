"""Pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.base.errors import require
from archir.ir.op import Free
from archir.ir.types import TensorType, is_map
from archir.ops.conv import Padding, Pads, pads_of, window


@dataclass(frozen=True)
class _Pool(Free, abstract=True):
    kernel: int
    stride: int = 1
    padding: Padding = "same"

    @property
    def pads(self) -> Pads:
        """Padding at the left, right, top and bottom."""
        before, after = pads_of(self.padding, self.kernel, self.stride, 1)
        return before, after, before, after

    def infer(self, x: TensorType) -> TensorType:
        """f32[C, H', W']."""
        channels, height, width = is_map(x)
        pads = self.pads[:2]
        require(max(pads) * 2 <= self.kernel, f"padding {max(pads)} is more than half of the window of {self.kernel}")
        rows = window(height, pads, self.kernel, self.stride, 1, "height")
        return x.with_dims(channels, rows, window(width, pads, self.kernel, self.stride, 1, "width"))

    def kernels(self, x: TensorType) -> int:
        """One; two where the zeros before and after differ in number."""
        return 1 + (self.pads[0] != self.pads[1])


@dataclass(frozen=True)
class MaxPool(_Pool):
    """Largest value of each window of a map; padding, as in `conv`, never wins."""


@dataclass(frozen=True)
class AvgPool(_Pool):
    """Mean of each window of a map, of its own pixels only unless `count_padding`; `padding` as in `conv`."""

    linear: ClassVar[bool] = True
    count_padding: bool = False

    def kernels(self, x: TensorType) -> int:
        """One; where the padding before and after differs, two, or six that count the pixels of each window."""
        return 1 if self.pads[0] == self.pads[1] else 2 if self.count_padding else 6


@dataclass(frozen=True)
class GlobalAvgPool(Free):
    """Mean over all positions: a map f32[C, H, W] or tokens f32[N, D] to a vector; `keep` leaves a map f32[C, 1, 1]."""

    linear: ClassVar[bool] = True
    keep: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """f32[C], or f32[C, 1, 1]."""
        return _pooled(x, self.keep)


@dataclass(frozen=True)
class GlobalMaxPool(Free):
    """Largest value over all positions, shapes as in `global_avg_pool`."""

    keep: bool = False

    def infer(self, x: TensorType) -> TensorType:
        """f32[C], or f32[C, 1, 1]."""
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
class MaxOver(_Over):
    """Largest value along one axis, shapes as in `mean_over`."""


def _pooled(x: TensorType, keep: bool) -> TensorType:
    require(x.rank in (2, 3), f"expected a map [C, H, W] or tokens [N, D], got {x}", code="A0402")
    if keep:
        is_map(x)
        return x.with_dims(x.channels, 1, 1)
    return x.with_dims(x.channels)
