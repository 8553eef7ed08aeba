"""Tensor types: element type, kind and dimensions, without the batch axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal, cast

from archir.diagnostics.errors import RuleError
from archir.diagrams.diagram import Diagram, describe_leaves, leaves, value_at, varies

Dim = int | Diagram
"""A dimension: an integer, or a diagram with integer leaves."""
Kind = Literal["feature", "gate", "kernel"]
"""What a tensor is used for: a feature, a gate for features, or a bank of per-sample depthwise kernels."""

KINDS: tuple[Kind, ...] = ("feature", "gate", "kernel")
"""All kinds."""

DTYPES = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "bool": 1}
"""Element types with their sizes in bytes."""

INTEGER_DTYPES = ("i64", "i32")
"""Integer element types; operations use integer tensors only as indices."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a tensor: `f32[C, H, W]` for a map, `f32[N, D]` for tokens, `f32[D]` for a vector.

    Dimensions and kind may depend on choices. If a choice selects between tensors of different kinds, the kind of the
    result depends on the choice.
    """

    dims: tuple[Dim, ...]
    dtype: str = "f32"
    kind: Kind | Diagram = "feature"
    integer_limit: int | None = field(default=None, compare=False)
    """Exclusive upper bound of an input's integers, if `archir.backends.input_ranges` inferred one.

    Comparisons of types ignore this field.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions as integers; only for types that do not depend on choices."""
        assert Diagram not in map(type, self.dims), "this type depends on choices"
        return cast(tuple[int, ...], self.dims)

    @property
    def rank(self) -> int:
        """Number of axes, without the batch axis."""
        return len(self.dims)

    @property
    def elements(self) -> int:
        """Number of elements of one sample."""
        return prod(self.shape)

    @property
    def channel_axis(self) -> int:
        """Index of the channel axis: the first axis of a map, the last one of tokens and vectors."""
        return 0 if self.rank >= 3 else self.rank - 1

    @property
    def channels(self) -> int:
        """Size of the channel axis."""
        return self.shape[self.channel_axis]

    @property
    def is_floating(self) -> bool:
        """Whether the elements are floating-point numbers, rather than integers or booleans (indices and masks)."""
        return self.dtype not in (*INTEGER_DTYPES, "bool")

    @property
    def spatial(self) -> tuple[int, ...]:
        """Sizes of all axes except the channel axis: height and width of a map, the number of tokens."""
        axis = self.channel_axis
        return (*self.shape[:axis], *self.shape[axis + 1 :])

    def with_spatial(self, channels: int, *sizes: int) -> TensorType:
        """Return the type with this number of channels and these sizes of the spatial axes.

        The order of the axes is kept.
        """
        return self.with_dims(*((channels, *sizes) if self.channel_axis == 0 else (*sizes, channels)))

    @property
    def is_varying(self) -> bool:
        """Whether the type depends on choices."""
        return varies(self.kind) or any(varies(dim) for dim in self.dims)

    def at(self, outcomes: Mapping[str, int]) -> TensorType:
        """Return the type as it is in one architecture, which is given as outcomes by the paths of choices."""
        return TensorType(
            tuple(value_at(dim, outcomes) for dim in self.dims), self.dtype, value_at(self.kind, outcomes)
        )

    def of_kind(self, kind: Kind) -> TensorType:
        """Return the type with another kind."""
        return TensorType(self.dims, self.dtype, kind)

    def with_dims(self, *dims: int) -> TensorType:
        """Return the type with other dimensions."""
        return TensorType(dims, self.dtype, self.kind)

    def __str__(self) -> str:
        kinds = " or ".join(sorted(leaves(self.kind))) if varies(self.kind) else self.kind
        kind = "" if kinds == "feature" else f"{kinds} "
        return (
            f"{kind}{self.dtype}[{', '.join([describe_leaves(dim) if varies(dim) else str(dim) for dim in self.dims])}]"
        )


def is_map(x: TensorType) -> tuple[int, int, int]:
    """Return the dimensions (C, H, W) of a map. Raises RuleError (A0402) for any other type."""
    require_axes(x, 2)
    channels, height, width = x.shape
    return channels, height, width


AXES_NAMES = {1: "tokens [N, D]", 2: "a map [C, H, W]", 3: "a volume [C, D, H, W]"}
"""Names of tensors in messages, by the number of axes other than the channel axis."""


def require_axes(x: TensorType, *spatial: int, hint: str | None = None) -> None:
    """Raise RuleError (A0402) with `hint` unless the number of axes other than the channel axis is in `spatial`."""
    if x.rank - 1 not in spatial:
        hint = "there is no axis for the batch" if x.rank > 3 and x.rank - 2 in spatial else hint
        raise RuleError(f"expected {' or '.join(AXES_NAMES[count] for count in spatial)}, got {x}", hint, "A0402")


def is_tokens(x: TensorType) -> tuple[int, int]:
    """Return the dimensions (N, D) of tokens. Raises RuleError (A0402) for any other type."""
    require_axes(x, 1)
    tokens, features = x.shape
    return tokens, features


def broadcast(left: TensorType, right: TensorType) -> TensorType:
    """Return the type of an element-wise operation on two tensors.

    Ranks, element types and kinds must be equal, and each pair of dimensions must be equal or contain a 1.
    Raises RuleError.
    """
    if left.rank != right.rank:
        raise RuleError(f"ranks differ: {left} and {right}", code="A0402")
    if left.dtype != right.dtype:
        raise RuleError(f"element types differ: {left} and {right}")
    if left.kind != right.kind:
        raise RuleError(f"kinds differ: {left} and {right}", code="A0407")
    dims = []
    for a, b in zip(left.shape, right.shape, strict=True):
        if a != b and 1 not in (a, b):
            raise RuleError(f"shapes differ: {left} and {right}", code="A0401")
        dims.append(max(a, b) if 0 not in (a, b) else 0)
    return left.with_dims(*dims)
