"""Operations that move data, and learned tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod
from typing import Any, ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Dealt, Free, Gathered, Init, Piece, Role, Spread, Tie, Tied, View, Weight
from archir.ir.types import TensorType, has_axes, is_map, is_tokens


@dataclass(frozen=True)
class Reshape(View):
    """The same numbers, in order, in another shape; one dimension may be -1."""

    in_place: ClassVar[bool] = True
    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    shape: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """The new shape."""
        unknown = [i for i, dim in enumerate(self.shape) if dim == -1]
        require(len(unknown) <= 1, "only one dimension may be -1")
        require(all(dim >= 1 or dim == -1 for dim in self.shape), "dimensions must be at least 1, or -1")
        known = prod(dim for dim in self.shape if dim != -1)
        fits = x.elements % known == 0 if unknown else x.elements == known
        require(fits, f"{x} does not reshape to {list(self.shape)}: {x.elements} numbers against {known}")
        return x.with_dims(*(x.elements // known if dim == -1 else dim for dim in self.shape))

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """Where channels come first, each may be several, or several one. Where they come last, those of several
        positions may be pieces of one position's. None where they are the channels of neither side."""
        y = self.infer(x)
        if not (x.rank and y.rank):
            return ()
        before, after = x.elements // x.channels, y.elements // y.channels
        if x.rank == y.rank and x.shape == y.shape:
            return (Tied((0, None)),)
        if x.channel_axis == 0 and y.channel_axis == 0:  # vectors count as such, of one position
            return _along(before, after)
        if x.channel_axis == x.rank - 1 and y.channel_axis == y.rank - 1:
            return _across(x.channels, y.channels)
        return ()


def _along(before: int, after: int) -> tuple[Tie, ...]:
    """Of channels that come first, with so many numbers each before and after."""
    if before == after:
        return (Tied((0, None)),)
    if before % after == 0:
        return (Spread(0, before // after),)
    return (Gathered(0, after // before),) if after % before == 0 else ()


def _across(before: int, after: int) -> tuple[Tie, ...]:
    """Of channels that come last, so many before and after."""
    if before == after:
        return (Tied((0, None)),)
    if after % before == 0:
        return (Piece(None, 0, after // before),)
    return (Piece(0, None, before // after),) if before % after == 0 else ()


@dataclass(frozen=True)
class Transpose(View):
    """Axes in another order, counted without the batch axis; the default swaps the last two."""

    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    axes: tuple[int, ...] | None = None

    def order(self, rank: int) -> tuple[int, ...]:
        """The axes in their new order."""
        if self.axes is not None:
            return self.axes
        require(rank >= 2, "a vector has no two axes to swap")
        return (*range(rank - 2), rank - 1, rank - 2)

    def infer(self, x: TensorType) -> TensorType:
        """The permuted shape."""
        order = self.order(x.rank)
        require(sorted(order) == list(range(x.rank)), f"{list(order)} is no order of the {x.rank} axes of {x}")
        return x.with_dims(*(x.shape[axis] for axis in order))

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """None: what were channels are others now."""
        return ()


@dataclass(frozen=True)
class Slice(View):
    """Positions `start:stop` of an axis, counted without the batch axis; the default axis is that of the features."""

    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    start: int = 0
    stop: int | None = None
    axis: int | None = None

    def bounds(self, x: TensorType) -> tuple[int, int, int]:
        """Axis, start and stop, all non-negative."""
        axis = x.channel_axis if self.axis is None else self.axis
        require(-x.rank <= axis < x.rank, f"axis {axis} of {x} does not exist")
        size = x.shape[axis % x.rank]
        start, stop, _ = slice(self.start, self.stop).indices(size)
        outside = self.stop is not None and self.stop > size
        require(start < stop and not outside, f"slice {self.start}:{self.stop} of an axis of {size}")
        return axis % x.rank, start, stop

    def infer(self, x: TensorType) -> TensorType:
        """The shorter shape."""
        axis, start, stop = self.bounds(x)
        return x.with_dims(*(stop - start if i == axis else dim for i, dim in enumerate(x.shape)))

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """Of channels, a piece, if these divide into such pieces."""
        axis, start, stop = self.bounds(x)
        if axis != x.channel_axis or stop - start == x.channels:
            return (Tied((0, None)),)
        fits = x.channels % (stop - start) == start % (stop - start) == 0
        return (Piece(0, None, x.channels // (stop - start)),) if fits else ()


@dataclass(frozen=True)
class FirstTokens(View):
    """As many of the first tokens of x as another tensor has: learned positions of texts that may be shorter."""

    any_element: ClassVar[bool] = True
    operands: ClassVar[tuple[str, ...]] = ("x", "like")

    def infer(self, x: TensorType, like: TensorType) -> TensorType:
        """f32[N, D] of x f32[M, D] and like f32[N, ...]."""
        for one in (x, like):
            require(one.rank in (1, 2), f"expected tokens [N, D] or [N], got {one}", code="A0402")
        require(like.shape[0] <= x.shape[0], f"there are {x.shape[0]} tokens in {x}, not {like.shape[0]} as in {like}")
        return x.with_dims(like.shape[0], *x.shape[1:])

    def ties(self, x: TensorType, like: TensorType) -> tuple[Tie, ...]:
        """The channels of x."""
        return (Tied((0, None)),) if x.rank == 2 else ()


@dataclass(frozen=True)
class Pad(Free):
    """Zeros around a map or a volume: `amount` on every side, or (left, right, top, bottom), of a volume six."""

    linear: ClassVar[bool] = True
    amount: int | tuple[int, ...]

    def pads(self, axes: int) -> tuple[int, ...]:
        """Zeros before and after so many axes, the last one first: at the left, right, top and bottom."""
        return (self.amount,) * (2 * axes) if isinstance(self.amount, int) else self.amount

    def infer(self, x: TensorType) -> TensorType:
        """The larger map or volume."""
        has_axes(x, 2, 3)
        axes = x.rank - 1
        pads, wanted = self.pads(axes), {2: "four", 3: "six"}[axes]
        fits = len(pads) == 2 * axes and min(pads) >= 0
        require(fits, f"`amount` is one number or {wanted}, none negative")
        more = [before + after for before, after in zip(pads[::2], pads[1::2], strict=True)]
        return x.with_spatial(
            x.channels, *(size + zeros for size, zeros in zip(x.spatial, reversed(more), strict=True))
        )


@dataclass(frozen=True)
class ToTokens(View):
    """A map f32[C, H, W] as tokens f32[H * W, C], row by row."""

    linear: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """f32[H * W, C]."""
        channels, height, width = is_map(x)
        return x.with_dims(height * width, channels)


@dataclass(frozen=True)
class ToMap(View):
    """Tokens f32[H * W, C] as a map f32[C, H, W]; the default is square."""

    linear: ClassVar[bool] = True
    height: int | None = None

    def infer(self, x: TensorType) -> TensorType:
        """f32[C, H, W]."""
        tokens, features = is_tokens(x)
        height = isqrt(tokens) if self.height is None else self.height
        require(height >= 1 and tokens % height == 0, f"{tokens} tokens do not make a map of height {height}")
        require(
            self.height is not None or height**2 == tokens, f"{tokens} tokens do not make a square map: name `height`"
        )
        return x.with_dims(features, height, tokens // height)


@dataclass(frozen=True)
class Flatten(View):
    """All numbers as a vector."""

    in_place: ClassVar[bool] = True
    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """f32[elements]."""
        return x.with_dims(x.elements)

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """Where channels come last, all of them at each position, one after another; where they come first, all
        positions of each."""
        if x.rank > 1 and x.channel_axis == x.rank - 1:
            return (Piece(None, 0, x.elements // x.channels),)
        return (Spread(0, x.elements // x.channels),) if x.channel_axis == 0 else ()


@dataclass(frozen=True)
class ChannelShuffle(Free):
    """Channels of a map, dealt out of `groups` in turn (Zhang et al. 2018, ShuffleNet)."""

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

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """Channels of the groups in turn."""
        return (Dealt(0, self.groups),)


@dataclass(frozen=True)
class Upsample(Free):
    """A map or a volume `factor` times as long along each axis but that of the channels, by repetition."""

    linear: ClassVar[bool] = True
    factor: int = 2

    def infer(self, x: TensorType) -> TensorType:
        """f32[C, factor * H, factor * W]."""
        has_axes(x, 2, 3)
        require(self.factor >= 1, "`factor` must be at least 1")
        return x.with_spatial(x.channels, *(size * self.factor for size in x.spatial))

    def kernels(self, x: TensorType) -> int:
        """One; none by a factor of 1."""
        return int(self.factor > 1)


@dataclass(frozen=True)
class Parameter(View):
    """A learned tensor, the same for every sample: class tokens, position embeddings, layer scales.

    One that is not `trained` is kept with the weights and stays as it is, as masks and tables of waves do.
    """

    operands: ClassVar[tuple[str, ...]] = ()
    later: ClassVar[tuple[str, ...]] = ("trained",)
    shape: tuple[int, ...]
    init: Init = "token"
    trained: bool = True

    def infer(self, *operands: Any) -> TensorType:
        """f32[shape]."""
        require(all(dim >= 1 for dim in self.shape), "dimensions must be at least 1")
        return TensorType(self.shape)

    def weights(self, *operands: Any) -> dict[str, Weight]:
        """`value` [shape]."""
        return {"value": Weight(self.shape, self.init, buffer=not self.trained)}

    def roles(self, *operands: Any) -> dict[str, tuple[Role, ...]]:
        """The channels; the first of other positions."""
        axis = self.infer().channel_axis
        return {"value": tuple("result" if i == axis else "leading" for i in range(len(self.shape)))}
