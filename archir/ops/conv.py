"""Convolutions, transposed convolutions and linear layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, cast

from archir.diagnostics.errors import require
from archir.ir.op import AliasMap, ChannelMap, Op, Role, Weight
from archir.ir.types import TensorType, require_axes
from archir.ops.windows import Padding, Sizes, Windows, output_sizes, pads_of, per_axis, windows


def conv_channel_maps(groups: int, channels: int, operand_channels: int) -> tuple[ChannelMap, ...]:
    """Return the channel maps of a convolution.

    With one group, there are no maps, because the result's channels are new. A depthwise convolution keeps the
    operand's channels. With several groups, operand and result have different channels, both split into `groups` heads.
    """
    if groups == 1:
        return ()
    return (
        (AliasMap((0, None)),)
        if groups == channels == operand_channels
        else (AliasMap((0,), groups), AliasMap((None,), groups))
    )


def _weight_roles(weights: dict[str, Weight], groups: int) -> dict[str, tuple[Role, ...]]:
    """Return the role of each axis of the weights [channels, C / groups, *kernel].

    With several groups, a smaller weight uses the first input channels of each group. A smaller kernel is the centre of
    the larger one.
    """
    inner: Role = "operand" if groups == 1 else "leading"
    roles: dict[str, tuple[Role, ...]] = {}
    for name, weight in weights.items():
        roles[name] = ("result", inner, "centred", "centred", "centred")[: len(weight.shape)]
    return roles


class Convolution(Op, abstract=True):
    """Base of convolutions along the `spatial` axes, with weights [channels, C / groups, *kernel]."""

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
        """The sliding window of each axis."""
        return windows(self.spatial, self.kernel, self.stride, self.padding, self.dilation)

    @property
    def pads(self) -> tuple[int, ...]:
        """Number of zeros before and after each axis, last axis first, in the order of torch.nn.functional.pad."""
        return pads_of(self.windows)

    def narrowed(self, part: int) -> Convolution:
        """Return this operation with 1 / `part` of the channels and, if grouped, of the groups.

        The size of groups is kept. Raises RuleError if the number of channels or groups is not divisible by `part`.
        """
        groups = self.groups if self.groups == 1 else self.groups // part
        is_divisible = self.channels % part == 0 and (self.groups == 1 or self.groups % part == 0)
        require(is_divisible, f"{self.channels} channels in {self.groups} groups do not divide by {part}")
        conv: Any = self
        return cast(Convolution, replace(conv, channels=self.channels // part, groups=groups))

    def infer(self, x: TensorType) -> TensorType:
        """The operand's axes, with `channels` channels and, along each spatial axis, one position per window."""
        self._check(x)
        return x.with_spatial(self.channels, *output_sizes(self.windows, x.spatial))

    def _check(self, x: TensorType) -> None:
        """Raise RuleError unless x has the required axes, and the channels of x and of the result divide by the
        groups."""
        require_axes(x, self.spatial, hint=f"`linear({self.channels})` takes a vector [D]" if x.rank == 1 else None)
        require(self.channels >= 1, f"`channels` must be at least 1, got {self.channels}")
        require(self.groups >= 1, f"`groups` must be at least 1, got {self.groups}")
        for side, count in (("input", x.channels), ("output", self.channels)):
            require(count % self.groups == 0, f"{count} {side} channels do not split into {self.groups} groups")

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [channels, C / groups, *kernel] and, if `bias`, `bias` [channels]."""
        kernel = per_axis(self.kernel, self.spatial, "kernel")
        inner = x.channels // self.groups
        fan_in = inner * prod(kernel)
        weight = Weight((self.channels, inner, *kernel), "lecun", fan_in)
        return {"weight": weight} | ({"bias": Weight((self.channels,), "fan_in", fan_in)} if self.bias else {})

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return the roles of the weights' axes: channels of the result, channels of the operand, kernel axes
        (centred)."""
        return _weight_roles(self.weights(x), self.groups)

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel maps that `conv_channel_maps` computes."""
        return conv_channel_maps(self.groups, self.channels, x.channels)

    def macs(self, x: TensorType) -> int:
        """One multiply-accumulate per element of `weight` and output position."""
        return self.weights(x)["weight"].elements * prod(self.infer(x).spatial)

    def kernels(self, x: TensorType) -> int:
        """1 kernel launch; 2 if the padding before and after an axis differs."""
        return 1 + (not all(window.is_symmetric for window in self.windows))


@dataclass(frozen=True)
class Conv(Convolution):
    """2-D convolution of a map f32[C, H, W]: `conv(8, kernel=[3, 1], stride=[2, 1])`.

    `kernel`, `stride` and `dilation` are one number for both axes, or [height, width]. `padding` is "same" for an
    output of ceil(size / stride) pixels, "valid" for no padding, or the number of zeros: one number for all sides,
    [height, width], or [left, right, top, bottom].
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
    """3-D convolution of a volume f32[C, D, H, W]: `conv3d(16, kernel=[1, 3, 3])`.

    Settings with one number per axis are in the order depth, height, width. Padding may also be given for each side, as
    [left, right, top, bottom, front, back].
    """

    spatial: ClassVar[int] = 3


@dataclass(frozen=True)
class Conv1d(Convolution):
    """1-D convolution along the tokens of f32[N, D], whose features are the channels: `conv1d(64, kernel=9, stride=2)`.

    `padding` is as in `conv`, or [before, after].
    """

    spatial: ClassVar[int] = 1
    channels: int
    kernel: int = 3
    padding: Padding = "same"
    groups: int = 1
    bias: bool = False
    stride: int = 1
    dilation: int = 1


@dataclass(frozen=True)
class ConvTranspose(Convolution):
    """Transposed convolution, which enlarges a map f32[C, H, W]: `conv_transpose(8, kernel=4, stride=2)`.

    Each input pixel adds a scaled kernel to the output, `stride` output pixels after that of the previous input pixel.
    `padding` is the number of pixels cropped from both sides: "same" leaves `stride` output pixels per input pixel,
    "valid" crops nothing. `output_padding` pixels fewer are cropped at the bottom and at the right.
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
    def crops(self) -> tuple[tuple[int, int], ...]:
        """For each axis, the number of positions cropped from both sides, and how many fewer are cropped at the end."""
        output_padding = per_axis(self.output_padding, self.spatial, "output_padding")
        if self.padding != "same":
            return tuple((window.before, extra) for window, extra in zip(self.windows, output_padding, strict=True))
        require(not any(output_padding), '`output_padding` follows from `padding="same"`')
        overlaps = [window.span - window.stride for window in self.windows]
        return tuple((max(overlap + 1, 0) // 2, overlap % 2 if overlap > 0 else -overlap) for overlap in overlaps)

    @property
    def crop(self) -> tuple[int, ...]:
        """For each axis, the number of positions cropped from both sides."""
        return tuple(before for before, _ in self.crops)

    @property
    def extra(self) -> tuple[int, ...]:
        """For each axis, how many fewer positions are cropped at the end than at the start: torch's
        `output_padding`."""
        return tuple(extra for _, extra in self.crops)

    def infer(self, x: TensorType) -> TensorType:
        """The operand's axes, with `channels` channels.

        With `padding="same"`, each spatial axis is `stride` times as long.
        """
        self._check(x)
        sizes = []
        for size, window, (cropped, extra) in zip(x.spatial, self.windows, self.crops, strict=True):
            require(min(window[:3]) >= 1, "kernel, stride and dilation must be at least 1")
            require(window.is_symmetric or self.padding == "same", "`padding` must be the same on both sides")
            subject = "`output_padding`" if self.padding != "same" else "the extra position of an even window"
            require(0 <= extra < window.stride, f"{subject} must be below {window.stride}, the stride, got {extra}")
            sizes.append((size - 1) * window.stride + window.span - 2 * cropped + extra)
            require(sizes[-1] >= 1, f"a padding of {cropped} crops all of {size} positions")
        return x.with_spatial(self.channels, *sizes)

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [C, channels / groups, *kernel] and, if `bias`, `bias` [channels]."""
        kernel = per_axis(self.kernel, self.spatial, "kernel")
        fan_in = max(1, x.channels // self.groups * prod(kernel) // prod(window.stride for window in self.windows))
        weight = Weight((x.channels, self.channels // self.groups, *kernel), "lecun", fan_in)
        return {"weight": weight} | ({"bias": Weight((self.channels,), "fan_in", fan_in)} if self.bias else {})

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return the roles of the weights' axes: channels of the operand, channels of the result, kernel axes
        (centred)."""
        outer: Role = "result" if self.groups == 1 else "leading"
        kernel: list[Role] = ["centred"] * self.spatial
        return {"weight": ("operand", outer, *kernel)} | ({"bias": ("result",)} if self.bias else {})

    def macs(self, x: TensorType) -> int:
        """One multiply-accumulate per element of `weight` and position of the operand."""
        return self.weights(x)["weight"].elements * prod(x.spatial)

    def kernels(self, x: TensorType) -> int:
        """1 kernel launch."""
        return 1


@dataclass(frozen=True)
class Linear(Op):
    """Linear layer over the features of tokens f32[N, D] or of a vector f32[D]."""

    linear: ClassVar[bool] = True
    channels: int
    bias: bool = True

    def infer(self, x: TensorType) -> TensorType:
        """The shape of the operand, with `channels` features."""
        hint = None
        if x.rank in (3, 4):
            what, op = ("map", "conv") if x.rank == 3 else ("volume", "conv3d")
            pointwise = f"or apply `{op}({self.channels}, kernel=1)` to each position"
            hint = f"for a {what}, apply `global_avg_pool`, `flatten` or `to_tokens` first, {pointwise}"
        require(x.rank in (1, 2), f"expected tokens [N, D] or a vector [D], got {x}", hint, "A0402")
        require(self.channels >= 1, f"`channels` must be at least 1, got {self.channels}")
        return x.with_dims(*x.shape[:-1], self.channels)

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [channels, D] and, if `bias`, `bias` [channels]."""
        features = x.shape[-1]
        matrix = Weight((self.channels, features), "fan_in", features)
        return {"weight": matrix} | ({"bias": Weight((self.channels,), "zeros")} if self.bias else {})

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return the roles of the weights' axes: channels of the result, channels of the operand."""
        return _weight_roles(self.weights(x), 1)

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return no channel maps: the channels of the result are new."""
        return ()

    def macs(self, x: TensorType) -> int:
        """One multiply-accumulate per element of `weight` and token."""
        return x.elements * self.channels


AffineOp = Conv | Conv1d | ConvTranspose | Linear
"""Operations that multiply by a `weight` and add an optional `bias`."""
