"""The type of a tensor: element type, kind and dimensions, without the batch axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal, cast

from archir.diagnostics.errors import RuleError
from archir.diagrams.cases import Case, at, leaves, varies, worded

Dim = int | Case
Kind = Literal["feature", "gate", "kernel"]
"""What a tensor is for: a feature, a gate that multiplies features, or a bank of depthwise kernels for each sample."""

KINDS: tuple[Kind, ...] = ("feature", "gate", "kernel")

DTYPES = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "bool": 1}
"""Element types and their sizes in bytes."""

INTEGERS = ("i64", "i32")
"""Element types of integers, which operations look things up by."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """`f32[C, H, W]` for maps, `f32[N, D]` for tokens, `f32[D]` for vectors.

    A dimension may depend on choices, and so may the kind: a choice among kinds has their union.
    """

    dims: tuple[Dim, ...]
    dtype: str = "f32"
    kind: Kind | Case = "feature"
    below: int | None = field(default=None, compare=False)
    """What the integers of an input are below, where `archir.backends.ranges` found it; types are the same without."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, of a type that depends on no choice."""
        assert Case not in map(type, self.dims), "this type depends on choices"
        return cast(tuple[int, ...], self.dims)

    @property
    def rank(self) -> int:
        """Number of axes, without the batch axis."""
        return len(self.dims)

    @property
    def elements(self) -> int:
        """Numbers in one sample."""
        return prod(self.shape)

    @property
    def channel_axis(self) -> int:
        """The axis of the features: the first of a map, the last of tokens and vectors."""
        return 0 if self.rank >= 3 else self.rank - 1

    @property
    def channels(self) -> int:
        """Size of the feature axis."""
        return self.shape[self.channel_axis]

    @property
    def numeric(self) -> bool:
        """Whether its elements are floating-point numbers, which can be computed with; others are looked up by."""
        return self.dtype not in (*INTEGERS, "bool")

    @property
    def spatial(self) -> tuple[int, ...]:
        """Sizes of the other axes: height and width of a map, the number of tokens."""
        axis = self.channel_axis
        return (*self.shape[:axis], *self.shape[axis + 1 :])

    def with_spatial(self, channels: int, *sizes: int) -> TensorType:
        """Other channels and other sizes, in the same order."""
        return self.with_dims(*((channels, *sizes) if self.channel_axis == 0 else (*sizes, channels)))

    @property
    def varied(self) -> bool:
        """Whether the type depends on choices."""
        return varies(self.kind) or any(varies(dim) for dim in self.dims)

    def at(self, outcomes: Mapping[str, int]) -> TensorType:
        """The type under outcomes of choices, by path."""
        return TensorType(tuple(at(dim, outcomes) for dim in self.dims), self.dtype, at(self.kind, outcomes))

    def of_kind(self, kind: Kind) -> TensorType:
        """The same element type and dimensions, of another kind."""
        return TensorType(self.dims, self.dtype, kind)

    def with_dims(self, *dims: int) -> TensorType:
        """The same element type and kind with other dimensions."""
        return TensorType(dims, self.dtype, self.kind)

    def __str__(self) -> str:
        kinds = " or ".join(sorted(leaves(self.kind))) if varies(self.kind) else self.kind
        kind = "" if kinds == "feature" else f"{kinds} "
        return f"{kind}{self.dtype}[{', '.join([worded(dim) if varies(dim) else str(dim) for dim in self.dims])}]"


def is_map(x: TensorType) -> tuple[int, int, int]:
    """The dimensions (C, H, W) of a map; RuleError for anything else."""
    has_axes(x, 2)
    channels, height, width = x.shape
    return channels, height, width


AXES = {1: "tokens [N, D]", 2: "a map [C, H, W]", 3: "a volume [C, D, H, W]"}
"""Tensors by how many axes they have besides that of the features."""


def has_axes(x: TensorType, *spatial: int, hint: str | None = None) -> None:
    """RuleError, with the hint, unless x has so many axes besides that of the features."""
    if x.rank - 1 not in spatial:
        hint = "there is no axis for the batch" if x.rank > 3 and x.rank - 2 in spatial else hint
        raise RuleError(f"expected {' or '.join(AXES[count] for count in spatial)}, got {x}", hint, "A0402")


def is_tokens(x: TensorType) -> tuple[int, int]:
    """The dimensions (N, D) of tokens; RuleError for anything else."""
    has_axes(x, 1)
    tokens, features = x.shape
    return tokens, features


def broadcast(one: TensorType, other: TensorType) -> TensorType:
    """The type of an element-wise operation: equal ranks, and each pair of dimensions equal or with a 1 in it."""
    if one.rank != other.rank:
        raise RuleError(f"ranks differ: {one} and {other}", code="A0402")
    if one.dtype != other.dtype:
        raise RuleError(f"element types differ: {one} and {other}")
    if one.kind != other.kind:
        raise RuleError(f"kinds differ: {one} and {other}", code="A0407")
    dims = []
    for a, b in zip(one.shape, other.shape, strict=True):
        if a != b and 1 not in (a, b):
            raise RuleError(f"shapes differ: {one} and {other}", code="A0401")
        dims.append(max(a, b) if 0 not in (a, b) else 0)
    return one.with_dims(*dims)
