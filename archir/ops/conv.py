"""Convolutions and linear maps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, cast

from archir.diagnostics.errors import require
from archir.ir.op import Op, Role, Tie, Tied, Weight
from archir.ir.types import TensorType, has_axes
from archir.ops.windows import Padding, Sizes, Windows, each, pads_of, slid, windows


def grouped(groups: int, channels: int, operand: int) -> tuple[Tie, ...]:
    """A convolution's channels are new ones, but for a depthwise one; several groups have theirs side by side."""
    if groups == 1:
        return ()
    return (Tied((0, None)),) if groups == channels == operand else (Tied((0,), groups), Tied((None,), groups))


def _axes(weights: dict[str, Weight], groups: int) -> dict[str, tuple[Role, ...]]:
    """Each group has the first of its operand's channels, and kernels lie in the middle of larger ones."""
    inner: Role = "operand" if groups == 1 else "leading"
    found: dict[str, tuple[Role, ...]] = {}
    for name, weight in weights.items():
        found[name] = ("result", inner, "centred", "centred", "centred")[: len(weight.shape)]
    return found


class Convolution(Op, abstract=True):
    """A convolution along `spatial` axes, with weights [channels, C / groups, *kernel]."""

    linear: ClassVar[bool] = True
    spatial: ClassVar[int]
    channels: int
    kernel: Sizes
    stride: Sizes
    padding: Padding
    dilation: Sizes
    groups: int
    bias: bool

    @property
    def windows(self) -> Windows:
        """One for each axis."""
        return windows(self.spatial, self.kernel, self.stride, self.padding, self.dilation)

    @property
    def pads(self) -> tuple[int, ...]:
        """Zeros before and after, the last axis first."""
        return pads_of(self.windows)

    def narrowed(self, part: int) -> Convolution:
        """Fewer channels, and as many in a group as before."""
        groups = self.groups if self.groups == 1 else self.groups // part
        fits = self.channels % part == 0 and (self.groups == 1 or self.groups % part == 0)
        require(fits, f"{self.channels} channels in {self.groups} groups do not divide by {part}")
        made: Any = self
        return cast(Convolution, replace(made, channels=self.channels // part, groups=groups))

    def infer(self, x: TensorType) -> TensorType:
        """The same axes, of `channels` channels and as many positions as there are windows."""
        self._check(x)
        return x.with_spatial(self.channels, *slid(self.windows, x.spatial))

    def _check(self, x: TensorType) -> None:
        """That the operand has the axes, and that its channels and those of the result split into groups."""
        has_axes(x, self.spatial, hint=f"`linear({self.channels})` takes a vector [D]" if x.rank == 1 else None)
        require(self.channels >= 1, f"`channels` must be at least 1, got {self.channels}")
        require(self.groups >= 1, f"`groups` must be at least 1, got {self.groups}")
        for what, count in (("input", x.channels), ("output", self.channels)):
            require(count % self.groups == 0, f"{count} {what} channels do not split into {self.groups} groups")

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [channels, C / groups, *kernel] and, if asked for, `bias` [channels]."""
        kernel = each(self.kernel, self.spatial, "kernel")
        inner = x.channels // self.groups
        fan_in = inner * prod(kernel)
        weight = Weight((self.channels, inner, *kernel), "lecun", fan_in)
        return {"weight": weight} | ({"bias": Weight((self.channels,), "fan_in", fan_in)} if self.bias else {})

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Channels, and kernels in the middle of larger ones."""
        return _axes(self.weights(x), self.groups)

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """As `grouped` says."""
        return grouped(self.groups, self.channels, x.channels)

    def macs(self, x: TensorType) -> int:
        """One per weight and output position."""
        return self.weights(x)["weight"].elements * prod(self.infer(x).spatial)

    def kernels(self, x: TensorType) -> int:
        """One; two where the zeros before and after differ in number."""
        return 1 + (not all(window.even for window in self.windows))


@dataclass(frozen=True)
class Conv(Convolution):
    """2-D convolution of a map f32[C, H, W]: `conv(8, kernel=[3, 1], stride=[2, 1])`.

    `kernel`, `stride` and `dilation` are numbers for both axes, or one for the height and one for the width. `padding`
    is "same", which gives ceil(size / stride) pixels, "valid" for none, a number of zeros on every side, one for the
    height and one for the width, or [left, right, top, bottom].
    """

    spatial: ClassVar[int] = 2
    channels: int
    kernel: Sizes = 3
    stride: Sizes = 1
    padding: Padding = "same"
    dilation: Sizes = 1
    groups: int = 1
    bias: bool = False


@dataclass(frozen=True)
class Conv3d(Conv):
    """3-D convolution of a volume f32[C, D, H, W]: `conv3d(16, kernel=[1, 3, 3])`; the numbers of an axis are those of
    depth, height and width, and those of zeros [left, right, top, bottom, front, back]."""

    spatial: ClassVar[int] = 3


@dataclass(frozen=True)
class Conv1d(Convolution):
    """1-D convolution along the tokens of f32[N, D], features as channels: `conv1d(64, kernel=9, stride=2)`.

    `padding` is as in `conv`, or [before, after].
    """

    spatial: ClassVar[int] = 1
    later: ClassVar[tuple[str, ...]] = ("stride", "dilation")
    channels: int
    kernel: int = 3
    padding: Padding = "same"
    groups: int = 1
    bias: bool = False
    stride: int = 1
    dilation: int = 1


@dataclass(frozen=True)
class ConvTranspose(Convolution):
    """Transposed convolution of a map f32[C, H, W], which makes larger maps: `conv_transpose(8, kernel=4, stride=2)`.

    Each pixel adds its filter to the result, `stride` pixels further on. `padding` is cut off: "same" leaves `stride`
    pixels for each, "valid" all, numbers as many on both sides. `output_padding` leaves that many more at the bottom
    and at the right.
    """

    spatial: ClassVar[int] = 2
    channels: int
    kernel: Sizes = 3
    stride: Sizes = 1
    padding: Padding = "same"
    output_padding: Sizes = 0
    dilation: Sizes = 1
    groups: int = 1
    bias: bool = False

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """Of each axis, what is cut off on both sides, and how much less at its end."""
        more = each(self.output_padding, self.spatial, "output_padding")
        if self.padding != "same":
            return tuple((window.before, extra) for window, extra in zip(self.windows, more, strict=True))
        require(not any(more), '`output_padding` follows from `padding="same"`')
        beyond = [window.span - window.stride for window in self.windows]
        return tuple((max(over + 1, 0) // 2, over % 2 if over > 0 else -over) for over in beyond)

    @property
    def cut(self) -> tuple[int, ...]:
        """What is cut off on both sides of each axis."""
        return tuple(before for before, _ in self.ends)

    @property
    def more(self) -> tuple[int, ...]:
        """How much less is cut off at the end of each axis."""
        return tuple(extra for _, extra in self.ends)

    def infer(self, x: TensorType) -> TensorType:
        """The same axes, of `channels` channels, each `stride` times as long with `padding="same"`."""
        self._check(x)
        sizes = []
        for size, window, (cut, extra) in zip(x.spatial, self.windows, self.ends, strict=True):
            require(min(window[:3]) >= 1, "kernel, stride and dilation must be at least 1")
            require(window.even or self.padding == "same", "`padding` is the same on both sides of what is transposed")
            why = "`output_padding`" if self.padding != "same" else "what a window of an even size leaves over"
            require(0 <= extra < window.stride, f"{why} must be below {window.stride}, the stride, got {extra}")
            sizes.append((size - 1) * window.stride + window.span - 2 * cut + extra)
            require(sizes[-1] >= 1, f"a padding of {cut} leaves nothing of {size} positions")
        return x.with_spatial(self.channels, *sizes)

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [C, channels / groups, *kernel] and, if asked for, `bias` [channels]."""
        kernel = each(self.kernel, self.spatial, "kernel")
        fan_in = max(1, x.channels // self.groups * prod(kernel) // prod(window.stride for window in self.windows))
        weight = Weight((x.channels, self.channels // self.groups, *kernel), "lecun", fan_in)
        return {"weight": weight} | ({"bias": Weight((self.channels,), "fan_in", fan_in)} if self.bias else {})

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Channels, and kernels in the middle of larger ones."""
        outer: Role = "result" if self.groups == 1 else "leading"
        kernel: list[Role] = ["centred"] * self.spatial
        return {"weight": ("operand", outer, *kernel)} | ({"bias": ("result",)} if self.bias else {})

    def macs(self, x: TensorType) -> int:
        """One per weight and position of the operand."""
        return self.weights(x)["weight"].elements * prod(x.spatial)

    def kernels(self, x: TensorType) -> int:
        """One."""
        return 1


@dataclass(frozen=True)
class Linear(Op):
    """Affine map of the features of tokens f32[N, D] or of a vector f32[D]."""

    linear: ClassVar[bool] = True
    channels: int
    bias: bool = True

    def infer(self, x: TensorType) -> TensorType:
        """The same shape but for the last axis."""
        hint = None
        if x.rank in (3, 4):
            what, op = ("map", "conv") if x.rank == 3 else ("volume", "conv3d")
            each = f"`{op}({self.channels}, kernel=1)` is one of each position"
            hint = f"of a {what}, take `global_avg_pool`, `flatten` or `to_tokens` first; {each}"
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

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """None."""
        return ()

    def macs(self, x: TensorType) -> int:
        """One per weight and token."""
        return x.elements * self.channels


Biased = Conv | Conv1d | ConvTranspose | Linear
"""Operations that have a weight, and a bias where it is asked for."""
