"""Operations of several tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Beside, Free, Op, Tie, Tied
from archir.ir.types import TensorType, broadcast


@dataclass(frozen=True)
class _Elementwise(Free, abstract=True):
    operands: ClassVar[tuple[str, ...]] = ("a", "b")

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """The stretched shape."""
        return broadcast(a, b)


@dataclass(frozen=True)
class Add(_Elementwise):
    """Element-wise sum; a dimension of 1 is stretched to the other's. `a + b` in `.arch`."""

    commutative: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    any_kind: ClassVar[bool] = True


@dataclass(frozen=True)
class Sub(_Elementwise):
    """Element-wise difference, shapes as in `add`. `a - b` in `.arch`."""

    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class Mul(_Elementwise):
    """Element-wise product, shapes as in `add`. `a * b` in `.arch`."""

    commutative: ClassVar[bool] = True
    any_kind: ClassVar[bool] = True

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """The stretched shape; a feature times a gate is a feature."""
        if {a.kind, b.kind} == {"feature", "gate"}:
            a, b = a.of_kind("feature"), b.of_kind("feature")
        return broadcast(a, b)


@dataclass(frozen=True)
class Div(_Elementwise):
    """Element-wise quotient, shapes as in `add`. `a / b` in `.arch`."""


@dataclass(frozen=True)
class Minimum(_Elementwise):
    """The smaller of each pair of elements, shapes as in `add`."""

    commutative: ClassVar[bool] = True


@dataclass(frozen=True)
class Maximum(Minimum):
    """The larger of each pair of elements, shapes as in `add`."""


@dataclass(frozen=True)
class Greater(_Elementwise):
    """Where a is above b, or above a number: a mask of truth values, as `greater(a, b)` or `greater(a, 0.5)`."""

    optional: ClassVar[int] = 1
    than: float = 0.0

    def infer(self, a: TensorType, b: TensorType | None = None) -> TensorType:
        """bool of the stretched shape."""
        return TensorType((a if b is None else broadcast(a, b)).dims, "bool")


@dataclass(frozen=True)
class Less(Greater):
    """Where a is below b, or below a number; as in `greater`."""


@dataclass(frozen=True)
class Where(Free):
    """a where a mask holds, b elsewhere; dimensions of 1 are stretched: `where(greater(x, 0), x, y)`."""

    operands: ClassVar[tuple[str, ...]] = ("mask", "a", "b")
    any_element: ClassVar[bool] = True

    def infer(self, mask: TensorType, a: TensorType, b: TensorType) -> TensorType:
        """The stretched shape."""
        hint = "`greater(a, b)` and `less(a, b)` make masks"
        require(mask.dtype == "bool", f"expected a mask of truth values, got {mask}", hint, "A0408")
        stretched = broadcast(a, b)
        return stretched.with_dims(*broadcast(stretched, TensorType(mask.dims, a.dtype)).shape)


@dataclass(frozen=True)
class Concat(Free):
    """Operands, or a list of them, side by side along an axis, counted without the batch axis.

    The default axis is that of the features.
    """

    operands: ClassVar[tuple[str, ...]] = ("*xs",)
    any_element: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    axis: int | None = None

    def infer(self, *xs: TensorType) -> TensorType:
        """The common shape, the sum along the axis."""
        require(len(xs) >= 1, "nothing to concatenate")
        first = xs[0]
        axis = first.channel_axis if self.axis is None else self.axis
        require(-first.rank <= axis < first.rank, f"axis {axis} of {first} does not exist")
        axis %= first.rank
        for x in xs[1:]:
            fits = x.rank == first.rank and x.dtype == first.dtype
            fits = fits and all(a == b for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if i != axis)
            require(fits, f"{first} and {x} differ outside axis {axis}")
        return first.with_dims(*(sum(x.shape[i] for x in xs) if i == axis else d for i, d in enumerate(first.shape)))

    def ties(self, *xs: TensorType) -> tuple[Tie, ...]:
        """All, unless channels are what is put side by side."""
        axis = xs[0].channel_axis if self.axis is None else self.axis % xs[0].rank
        return (Beside(tuple(range(len(xs)))),) if axis == xs[0].channel_axis else super().ties(*xs)


@dataclass(frozen=True)
class Matmul(Op):
    """Matrix product of f32[N, K] and f32[K, M]; with `transpose`, of f32[N, K] and f32[M, K].

    Axes before the last two are of matrices side by side, as many in both: f32[heads, N, K] and f32[heads, K, M].
    """

    operands: ClassVar[tuple[str, ...]] = ("a", "b")
    transpose: bool = False

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """f32[..., N, M]."""
        for x in (a, b):
            require(x.rank >= 2, f"expected matrices [..., N, K], got {x}", code="A0402")
        require(a.shape[:-2] == b.shape[:-2], f"the axes before the last two of {a} and {b} differ", code="A0402")
        inner, columns = b.shape[-1:-3:-1] if self.transpose else b.shape[-2:]
        require(a.shape[-1] == inner, f"the inner sizes of {a} and {b} differ")
        return a.with_dims(*a.shape[:-1], columns)

    def ties(self, a: TensorType, b: TensorType) -> tuple[Tie, ...]:
        """The columns of b, unless it is transposed."""
        return () if self.transpose or a.rank > 2 else (Tied((1, None)),)

    def macs(self, a: TensorType, b: TensorType) -> int:
        """N * K * M, for each of the matrices."""
        return self.infer(a, b).elements * a.shape[-1]
