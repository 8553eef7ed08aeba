"""Convolutions and linear maps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from archir.base.errors import require
from archir.ir.op import Op, Piece, Role, Tied, Weight
from archir.ir.types import TensorType, is_map

Padding = int | str
Pads = tuple[int, int, int, int]


def pads_of(padding: Padding, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Zeros before and after an axis. `"same"` gives ceil(size / stride) outputs; with an even extent the extra zero
    goes after."""
    if padding == "same":
        extent = dilation * (kernel - 1)
        return extent // 2, extent - extent // 2
    require(padding == "valid" or isinstance(padding, int), '`padding` is "same", "valid" or a number of pixels')
    require(not isinstance(padding, int) or padding >= 0, "`padding` must not be negative")
    return (0, 0) if padding == "valid" else (int(padding), int(padding))


def window(size: int, pads: tuple[int, int], kernel: int, stride: int, dilation: int, what: str) -> int:
    """Outputs of a sliding window along one axis."""
    require(kernel >= 1 and stride >= 1 and dilation >= 1, "kernel, stride and dilation must be at least 1")
    result = (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1
    require(result >= 1, f"a window of {kernel} does not fit into a {what} of {size}")
    return result


def grouped(groups: int, channels: int, operand: int) -> tuple[Tied | Piece, ...]:
    """A convolution's channels are new ones, but for a depthwise one; several groups have theirs side by side."""
    if groups == 1:
        return ()
    return (Tied((0, None)),) if groups == channels == operand else (Tied((0,), groups), Tied((None,), groups))


def _axes(weights: dict[str, Weight], groups: int) -> dict[str, tuple[Role, ...]]:
    """Each group has the first of its operand's channels, and kernels lie in the middle of larger ones."""
    inner: Role = "operand" if groups == 1 else "leading"
    kernel: tuple[Role, ...] = ("result", inner, "centred", "centred")
    return {name: kernel[: len(weight.shape)] for name, weight in weights.items()}


@dataclass(frozen=True)
class Conv(Op):
    """2-D convolution of a map f32[C, H, W]; `kernel`, `stride` and `dilation` hold for both axes.

    `padding` is "same", which gives ceil(size / stride) pixels, "valid" for none, or a number of zeros on every side.
    """

    linear: ClassVar[bool] = True
    channels: int
    kernel: int = 3
    stride: int = 1
    padding: Padding = "same"
    dilation: int = 1
    groups: int = 1
    bias: bool = False

    @property
    def pads(self) -> Pads:
        """Zeros at the left, right, top and bottom."""
        before, after = pads_of(self.padding, self.kernel, self.stride, self.dilation)
        return before, after, before, after

    def narrowed(self, part: int) -> Conv:
        """Fewer channels, and as many in a group as before."""
        groups = self.groups if self.groups == 1 else self.groups // part
        fits = self.channels % part == 0 and (self.groups == 1 or self.groups % part == 0)
        require(fits, f"{self.channels} channels in {self.groups} groups do not divide by {part}")
        return replace(self, channels=self.channels // part, groups=groups)

    def infer(self, x: TensorType) -> TensorType:
        """f32[channels, H', W']."""
        channels, height, width = is_map(x)
        require(self.channels >= 1, f"`channels` must be at least 1, got {self.channels}")
        require(self.groups >= 1, f"`groups` must be at least 1, got {self.groups}")
        for what, count in (("input", channels), ("output", self.channels)):
            require(count % self.groups == 0, f"{count} {what} channels do not split into {self.groups} groups")
        pads = self.pads[:2]
        rows = window(height, pads, self.kernel, self.stride, self.dilation, "height")
        columns = window(width, pads, self.kernel, self.stride, self.dilation, "width")
        return x.with_dims(self.channels, rows, columns)

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [channels, C / groups, kernel, kernel] and, if asked for, `bias` [channels]."""
        inner = x.channels // self.groups
        fan_in = inner * self.kernel**2
        kernel = Weight((self.channels, inner, self.kernel, self.kernel), "lecun", fan_in)
        return {"weight": kernel} | ({"bias": Weight((self.channels,), "fan_in", fan_in)} if self.bias else {})

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Channels, and kernels in the middle of larger ones."""
        return _axes(self.weights(x), self.groups)

    def ties(self, x: TensorType) -> tuple[Tied | Piece, ...]:
        """As `grouped` says."""
        return grouped(self.groups, self.channels, x.channels)

    def macs(self, x: TensorType) -> int:
        """One per weight and output position."""
        y = self.infer(x)
        return self.weights(x)["weight"].elements * prod(y.shape[1:])

    def kernels(self, x: TensorType) -> int:
        """One; two where the zeros before and after differ in number."""
        return 1 + (self.pads[0] != self.pads[1])


@dataclass(frozen=True)
class Conv1d(Op):
    """1-D convolution along the tokens of f32[N, D], features as channels; `padding` as in `conv`."""

    linear: ClassVar[bool] = True
    channels: int
    kernel: int = 3
    padding: Padding = "same"
    groups: int = 1
    bias: bool = False

    @property
    def pads(self) -> tuple[int, int]:
        """Zeros before and after the tokens."""
        return pads_of(self.padding, self.kernel, 1, 1)

    def infer(self, x: TensorType) -> TensorType:
        """f32[N', channels]."""
        require(x.rank == 2, f"expected tokens [N, D], got {x}", code="A0402")
        tokens, features = x.shape
        require(self.channels >= 1, f"`channels` must be at least 1, got {self.channels}")
        require(self.groups >= 1, f"`groups` must be at least 1, got {self.groups}")
        for what, count in (("input", features), ("output", self.channels)):
            require(count % self.groups == 0, f"{count} {what} channels do not split into {self.groups} groups")
        return x.with_dims(window(tokens, self.pads, self.kernel, 1, 1, "sequence"), self.channels)

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [channels, D / groups, kernel] and, if asked for, `bias` [channels]."""
        inner = x.channels // self.groups
        kernel = Weight((self.channels, inner, self.kernel), "lecun", inner * self.kernel)
        return {"weight": kernel} | (
            {"bias": Weight((self.channels,), "fan_in", inner * self.kernel)} if self.bias else {}
        )

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Channels, and kernels in the middle of larger ones."""
        return _axes(self.weights(x), self.groups)

    def ties(self, x: TensorType) -> tuple[Tied | Piece, ...]:
        """As `grouped` says."""
        return grouped(self.groups, self.channels, x.channels)

    def macs(self, x: TensorType) -> int:
        """One per weight and output token."""
        return self.weights(x)["weight"].elements * int(self.infer(x).shape[0])

    def kernels(self, x: TensorType) -> int:
        """One; two where the zeros before and after differ in number."""
        return 1 + (self.pads[0] != self.pads[1])


@dataclass(frozen=True)
class Linear(Op):
    """Affine map of the features of tokens f32[N, D] or of a vector f32[D]."""

    linear: ClassVar[bool] = True
    channels: int
    bias: bool = True

    def infer(self, x: TensorType) -> TensorType:
        """The same shape but for the last axis."""
        hint = "of a map, take `global_avg_pool`, `flatten` or `to_tokens` first" if x.rank == 3 else None
        require(x.rank in (1, 2), f"expected tokens [N, D] or a vector [D], got {x}", hint, "A0402")
        require(self.channels >= 1, f"`channels` must be at least 1, got {self.channels}")
        return x.with_dims(*x.shape[:-1], self.channels)

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [channels, D] and `bias` [channels]."""
        features = x.shape[-1]
        matrix = Weight((self.channels, features), "fan_in", features)
        return {"weight": matrix} | ({"bias": Weight((self.channels,), "zeros")} if self.bias else {})

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Channels."""
        return _axes(self.weights(x), 1)

    def ties(self, x: TensorType) -> tuple[Tied | Piece, ...]:
        """None."""
        return ()

    def macs(self, x: TensorType) -> int:
        """One per weight and token."""
        return x.elements * self.channels
