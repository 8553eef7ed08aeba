"""Element-wise arithmetic, comparisons, concatenation and matrix products of several tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import AliasMap, ChannelMap, ConcatMap, Free, Op
from archir.ir.types import TensorType, broadcast


@dataclass(frozen=True)
class _Elementwise(Free, abstract=True):
    """Base of element-wise operations of two tensors."""

    operands: ClassVar[tuple[str, ...]] = ("a", "b")

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """The broadcast shape."""
        return broadcast(a, b)


@dataclass(frozen=True)
class Add(_Elementwise):
    """Element-wise sum. A dimension of 1 is broadcast to that of the other operand. `.arch` syntax: `a + b`."""

    commutative: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    any_kind: ClassVar[bool] = True


@dataclass(frozen=True)
class Sub(_Elementwise):
    """Element-wise difference; shapes as in `add`. `.arch` syntax: `a - b`."""

    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class Mul(_Elementwise):
    """Element-wise product; shapes as in `add`. `.arch` syntax: `a * b`."""

    commutative: ClassVar[bool] = True
    any_kind: ClassVar[bool] = True

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """The broadcast shape. The product of a feature and a gate is a feature."""
        if {a.kind, b.kind} == {"feature", "gate"}:
            a, b = a.of_kind("feature"), b.of_kind("feature")
        return broadcast(a, b)


@dataclass(frozen=True)
class Div(_Elementwise):
    """Element-wise quotient; shapes as in `add`. `.arch` syntax: `a / b`."""


@dataclass(frozen=True)
class Minimum(_Elementwise):
    """Element-wise minimum; shapes as in `add`."""

    commutative: ClassVar[bool] = True


@dataclass(frozen=True)
class Maximum(Minimum):
    """Element-wise maximum; shapes as in `add`."""


@dataclass(frozen=True)
class Greater(_Elementwise):
    """Boolean mask that is true where a exceeds b, a tensor or a number: `greater(a, b)`, `greater(a, 0.5)`."""

    optional: ClassVar[int] = 1
    than: float = 0.0

    def infer(self, a: TensorType, b: TensorType | None = None) -> TensorType:
        """Booleans of the broadcast shape."""
        hint = f"write `{self.name}(a, b)` or `{self.name}(a, {self.than})`"
        require(b is None or self.than == 0, "expected a tensor or a number to compare with, got both", hint)
        return TensorType((a if b is None else broadcast(a, b)).dims, "bool")


@dataclass(frozen=True)
class Less(Greater):
    """Boolean mask that is true where a is below b, which may be a tensor or a number, as in `greater`."""


@dataclass(frozen=True)
class Where(Free):
    """a where the mask is true, b elsewhere: `where(greater(x, 0), x, y)`. Dimensions of 1 are broadcast."""

    operands: ClassVar[tuple[str, ...]] = ("mask", "a", "b")
    any_element: ClassVar[bool] = True

    def infer(self, mask: TensorType, a: TensorType, b: TensorType) -> TensorType:
        """The broadcast shape of all three operands."""
        hint = "`greater(a, b)` and `less(a, b)` make masks"
        require(mask.dtype == "bool", f"expected a mask of truth values, got {mask}", hint, "A0408")
        broadcasted = broadcast(a, b)
        return broadcasted.with_dims(*broadcast(broadcasted, TensorType(mask.dims, a.dtype)).shape)


@dataclass(frozen=True)
class Concat(Free):
    """Concatenation of the operands, which may be given as a list, along an axis; the default is the feature axis.

    Axes are counted without the batch axis.
    """

    operands: ClassVar[tuple[str, ...]] = ("*xs",)
    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    axis: int | None = None

    def infer(self, *xs: TensorType) -> TensorType:
        """The operands' common shape, with their sizes along the axis added up."""
        require(len(xs) >= 1, "nothing to concatenate")
        first = xs[0]
        axis = first.channel_axis if self.axis is None else self.axis
        require(-first.rank <= axis < first.rank, f"axis {axis} of {first} does not exist")
        axis %= first.rank
        for x in xs[1:]:
            is_compatible = x.rank == first.rank and x.dtype == first.dtype
            is_compatible = is_compatible and all(
                a == b for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if i != axis
            )
            require(is_compatible, f"{first} and {x} differ outside axis {axis}")
        return first.with_dims(*(sum(x.shape[i] for x in xs) if i == axis else d for i, d in enumerate(first.shape)))

    def ties(self, *xs: TensorType) -> tuple[ChannelMap, ...]:
        """Return a ConcatMap if the axis is the channel axis; otherwise, all tensors have the same channels."""
        axis = xs[0].channel_axis if self.axis is None else self.axis % xs[0].rank
        return (ConcatMap(tuple(range(len(xs)))),) if axis == xs[0].channel_axis else super().ties(*xs)


@dataclass(frozen=True)
class Matmul(Op):
    """Matrix product of f32[N, K] and f32[K, M]; with `transpose`, of f32[N, K] and f32[M, K].

    Axes before the last two are a batch of matrices and must be equal in both: f32[heads, N, K] and f32[heads, K, M].
    """

    operands: ClassVar[tuple[str, ...]] = ("a", "b")
    transpose: bool = False

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """Type f32[..., N, M]."""
        for x in (a, b):
            require(x.rank >= 2, f"expected matrices [..., N, K], got {x}", code="A0402")
        require(a.shape[:-2] == b.shape[:-2], f"the axes before the last two of {a} and {b} differ", code="A0402")
        inner, columns = b.shape[-1:-3:-1] if self.transpose else b.shape[-2:]
        require(a.shape[-1] == inner, f"the inner sizes of {a} and {b} differ")
        return a.with_dims(*a.shape[:-1], columns)

    def ties(self, a: TensorType, b: TensorType) -> tuple[ChannelMap, ...]:
        """Return a channel map from the columns of b to those of the result.

        There is none if b is transposed, or if the operands are batches of matrices.
        """
        return () if self.transpose or a.rank > 2 else (AliasMap((1, None)),)

    def macs(self, a: TensorType, b: TensorType) -> int:
        """N * K * M multiply-accumulates for each pair of matrices."""
        return self.infer(a, b).elements * a.shape[-1]
