"""Data movement (reshape, transpose, slice, pad, shuffle, upsample), and learned tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod
from typing import Any, ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import AliasMap, ChannelMap, Free, GroupMap, Init, RepeatMap, Role, ShuffleMap, SplitMap, View, Weight
from archir.ir.types import TensorType, is_map, is_tokens, require_axes


@dataclass(frozen=True)
class Reshape(View):
    """The operand's elements, in the same order, in another shape; one dimension may be -1 and is then computed."""

    in_place: ClassVar[bool] = True
    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    shape: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """The new shape."""
        unknown = [i for i, dim in enumerate(self.shape) if dim == -1]
        require(len(unknown) <= 1, "only one dimension may be -1")
        require(all(dim >= 1 or dim == -1 for dim in self.shape), "dimensions must be at least 1, or -1")
        product = prod(dim for dim in self.shape if dim != -1)
        is_valid = x.elements % product == 0 if unknown else x.elements == product
        require(is_valid, f"{x} does not reshape to {list(self.shape)}: it has {x.elements} numbers, not {product}")
        return x.with_dims(*(x.elements // product if dim == -1 else dim for dim in self.shape))

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel maps from the operand to the result.

        If the channels are the first axis of both, each channel may be split into several, or several may be merged
        into one. If the channels are the last axis of both, the channels of one position may be split among several
        positions, or the channels of several positions may be concatenated. Otherwise there are no channel maps.
        """
        y = self.infer(x)
        if not (x.rank and y.rank):
            return ()
        before, after = x.elements // x.channels, y.elements // y.channels
        if x.rank == y.rank and x.shape == y.shape:
            return (AliasMap((0, None)),)
        if x.channel_axis == 0 and y.channel_axis == 0:  # also a vector: its channels come first, with one position
            return _leading_channel_maps(before, after)
        if x.channel_axis == x.rank - 1 and y.channel_axis == y.rank - 1:
            return _trailing_channel_maps(x.channels, y.channels)
        return ()


def _leading_channel_maps(before: int, after: int) -> tuple[ChannelMap, ...]:
    """Return the channel maps of a reshape with channels first; `before` and `after` are elements per channel."""
    if before == after:
        return (AliasMap((0, None)),)
    if before % after == 0:
        return (RepeatMap(0, before // after),)
    return (GroupMap(0, after // before),) if after % before == 0 else ()


def _trailing_channel_maps(before: int, after: int) -> tuple[ChannelMap, ...]:
    """Return the channel maps of a reshape with channels last; `before` and `after` are numbers of channels."""
    if before == after:
        return (AliasMap((0, None)),)
    if after % before == 0:
        return (SplitMap(None, 0, after // before),)
    return (SplitMap(0, None, before // after),) if before % after == 0 else ()


@dataclass(frozen=True)
class Transpose(View):
    """Permutation of the axes, counted without the batch axis; the default swaps the last two."""

    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    axes: tuple[int, ...] | None = None

    def order(self, rank: int) -> tuple[int, ...]:
        """Return the permutation: for each axis of the result, the axis of the operand."""
        if self.axes is not None:
            return self.axes
        require(rank >= 2, "a vector does not have two axes to swap")
        return (*range(rank - 2), rank - 1, rank - 2)

    def infer(self, x: TensorType) -> TensorType:
        """The permuted shape."""
        order = self.order(x.rank)
        require(sorted(order) == list(range(x.rank)), f"{list(order)} is not a permutation of the {x.rank} axes of {x}")
        return x.with_dims(*(x.shape[axis] for axis in order))

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return no channel maps, since the channel axis of the result may be another axis of the operand."""
        return ()


@dataclass(frozen=True)
class Slice(View):
    """The positions `start:stop` of one axis, counted without the batch axis; the default is the feature axis."""

    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    start: int = 0
    stop: int | None = None
    axis: int | None = None

    def bounds(self, x: TensorType) -> tuple[int, int, int]:
        """Return axis, start and stop as non-negative numbers. Raises RuleError if x has no such axis or positions."""
        axis = x.channel_axis if self.axis is None else self.axis
        require(-x.rank <= axis < x.rank, f"axis {axis} of {x} does not exist")
        size = x.shape[axis % x.rank]
        start, stop, _ = slice(self.start, self.stop).indices(size)
        outside = self.stop is not None and self.stop > size
        require(start < stop and not outside, f"slice {self.start}:{self.stop} of an axis of {size}")
        return axis % x.rank, start, stop

    def infer(self, x: TensorType) -> TensorType:
        """The operand's shape, with the length of the slice along the axis."""
        axis, start, stop = self.bounds(x)
        return x.with_dims(*(stop - start if i == axis else dim for i, dim in enumerate(x.shape)))

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel maps from the operand to the result.

        A slice of some channels has a SplitMap if the slice is one of several equal parts of the channels, and
        otherwise no channel map. A slice of all channels, or along another axis, keeps the channels.
        """
        axis, start, stop = self.bounds(x)
        if axis != x.channel_axis or stop - start == x.channels:
            return (AliasMap((0, None)),)
        is_divisible = x.channels % (stop - start) == start % (stop - start) == 0
        return (SplitMap(0, None, x.channels // (stop - start)),) if is_divisible else ()


@dataclass(frozen=True)
class FirstTokens(View):
    """The first N tokens of x, where N is the number of tokens of `like`.

    Used to add learned position embeddings to texts that may be shorter than the table.
    """

    any_element: ClassVar[bool] = True
    operands: ClassVar[tuple[str, ...]] = ("x", "like")

    def infer(self, x: TensorType, like: TensorType) -> TensorType:
        """Type f32[N, D] for x f32[M, D] and like f32[N, ...]."""
        for operand in (x, like):
            require(operand.rank in (1, 2), f"expected tokens [N, D] or [N], got {operand}", code="A0402")
        require(like.shape[0] <= x.shape[0], f"{x} has {x.shape[0]} tokens, fewer than the {like.shape[0]} of {like}")
        return x.with_dims(like.shape[0], *x.shape[1:])

    def ties(self, x: TensorType, like: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel map from x to the result."""
        return (AliasMap((0, None)),) if x.rank == 2 else ()


@dataclass(frozen=True)
class Pad(Free):
    """Zero padding of a map or a volume, by `amount` zeros on every side, or by a number of zeros for each side.

    The order of sides is (left, right, top, bottom), followed for a volume by (front, back).
    """

    linear: ClassVar[bool] = True
    amount: int | tuple[int, ...]

    def pads(self, axes: int) -> tuple[int, ...]:
        """Return the zeros before and after each of the `axes` spatial axes, last axis first: left, right, top,
        bottom."""
        return (self.amount,) * (2 * axes) if isinstance(self.amount, int) else self.amount

    def infer(self, x: TensorType) -> TensorType:
        """The padded map or volume."""
        require_axes(x, 2, 3)
        axes = x.rank - 1
        pads, expected = self.pads(axes), {2: "four", 3: "six"}[axes]
        is_valid = len(pads) == 2 * axes and min(pads) >= 0
        require(is_valid, f"`amount` must be one number or {expected}, none of them negative")
        added = [before + after for before, after in zip(pads[::2], pads[1::2], strict=True)]
        return x.with_spatial(
            x.channels, *(size + zeros for size, zeros in zip(x.spatial, reversed(added), strict=True))
        )


@dataclass(frozen=True)
class ToTokens(View):
    """A map f32[C, H, W] as tokens f32[H * W, C], row by row."""

    linear: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[H * W, C]."""
        channels, height, width = is_map(x)
        return x.with_dims(height * width, channels)


@dataclass(frozen=True)
class ToMap(View):
    """Tokens f32[H * W, C] as a map f32[C, H, W]; the map is square unless `height` is given."""

    linear: ClassVar[bool] = True
    height: int | None = None

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[C, H, W]."""
        tokens, features = is_tokens(x)
        height = isqrt(tokens) if self.height is None else self.height
        require(height >= 1 and tokens % height == 0, f"{tokens} tokens do not make a map of height {height}")
        require(
            self.height is not None or height**2 == tokens, f"{tokens} tokens do not make a square map: give `height`"
        )
        return x.with_dims(features, height, tokens // height)


@dataclass(frozen=True)
class Flatten(View):
    """All elements of the operand as a vector, in row-major order."""

    in_place: ClassVar[bool] = True
    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[number of elements]."""
        return x.with_dims(x.elements)

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel maps from the operand to the result.

        With channels last, the result is a concatenation of the channels of all positions. With channels first, it has
        all positions of the first channel, then those of the second, and so on.
        """
        if x.rank > 1 and x.channel_axis == x.rank - 1:
            return (SplitMap(None, 0, x.elements // x.channels),)
        return (RepeatMap(0, x.elements // x.channels),) if x.channel_axis == 0 else ()


@dataclass(frozen=True)
class ChannelShuffle(Free):
    """Channel shuffle of a map: the result takes one channel from each of the `groups` groups in turn.

    (Zhang et al. 2018, ShuffleNet)
    """

    linear: ClassVar[bool] = True
    groups: int

    def infer(self, x: TensorType) -> TensorType:
        """The type of the operand."""
        channels, _, _ = is_map(x)
        require(
            self.groups >= 1 and channels % self.groups == 0,
            f"{channels} channels do not split into {self.groups} groups",
        )
        return x

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return a ShuffleMap: the channels of the result come from the groups of the operand in turn."""
        return (ShuffleMap(0, self.groups),)


@dataclass(frozen=True)
class Upsample(Free):
    """Nearest-neighbour upsampling: each pixel of a map or volume is repeated `factor` times along every spatial
    axis."""

    linear: ClassVar[bool] = True
    factor: int = 2

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[C, factor * H, factor * W] for a map; for a volume, the depth is multiplied by `factor`, too."""
        require_axes(x, 2, 3)
        require(self.factor >= 1, "`factor` must be at least 1")
        return x.with_spatial(x.channels, *(size * self.factor for size in x.spatial))

    def kernels(self, x: TensorType) -> int:
        """1 kernel launch; none if `factor` is 1."""
        return int(self.factor > 1)


@dataclass(frozen=True)
class Parameter(View):
    """A learned tensor, the same for every sample: class tokens, position embeddings, layer scales.

    If not `trained`, the tensor is constant but saved with the weights, as is usual for masks and sinusoidal tables.
    """

    operands: ClassVar[tuple[str, ...]] = ()
    shape: tuple[int, ...]
    init: Init = "token"
    trained: bool = True

    def infer(self, *operands: Any) -> TensorType:
        """Type f32[shape]."""
        require(all(dim >= 1 for dim in self.shape), "dimensions must be at least 1")
        return TensorType(self.shape)

    def weights(self, *operands: Any) -> dict[str, Weight]:
        """`value` [shape]."""
        return {"value": Weight(self.shape, self.init, buffer=not self.trained)}

    def roles(self, *operands: Any) -> dict[str, tuple[Role, ...]]:
        """Return the roles of the axes of `value`: one axis holds the channels of the result.

        A smaller tensor uses a prefix of the other axes.
        """
        axis = self.infer().channel_axis
        return {"value": tuple("result" if i == axis else "leading" for i in range(len(self.shape)))}
