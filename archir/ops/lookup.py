"""Operations on integers: table lookup, gathering by position, one-hot vectors, and comparison with a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import AliasMap, ChannelMap, Free, Role, Weight
from archir.ir.types import INTEGER_DTYPES, TensorType


def _check_integers(x: TensorType) -> None:
    """Raise RuleError (A0408, A0402) unless x is i64[N] or a scalar i64[]."""
    require(x.dtype in INTEGER_DTYPES, f"expected integers, i64[N] or i64[], got {x}", code="A0408")
    hint = "flatten the integers with `reshape([-1])` and reshape the result"
    require(x.rank <= 1, f"expected i64[N] or i64[], got {x}", hint, "A0402")


@dataclass(frozen=True)
class Embedding(Free):
    """Rows of a learned table, looked up by integers from 0 to `vocabulary` - 1, such as words, bytes or categories."""

    any_element: ClassVar[bool] = True
    vocabulary: int
    channels: int

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[N, channels] for integers i64[N]; f32[channels] for a scalar i64[]."""
        _check_integers(x)
        require(self.vocabulary >= 1, f"`vocabulary` must be at least 1, got {self.vocabulary}")
        require(self.channels >= 1, f"`channels` must be at least 1, got {self.channels}")
        return TensorType((*x.shape, self.channels))

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [vocabulary, channels]."""
        return {"weight": Weight((self.vocabulary, self.channels), "token")}

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return the roles of the table's axes: rows, then channels of the result.

        A smaller vocabulary uses the first rows.
        """
        return {"weight": ("leading", "result")}

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return no channel maps: integers have no channels."""
        return ()

    def limits(self, x: TensorType) -> tuple[int | None, ...]:
        """Return `vocabulary` as the exclusive upper bound of the integers."""
        return (self.vocabulary,)


@dataclass(frozen=True)
class Gather(Free):
    """The entries of x at these integer positions of its first axis, such as the last token of each text."""

    any_element: ClassVar[bool] = True
    operands: ClassVar[tuple[str, ...]] = ("x", "positions")

    def infer(self, x: TensorType, positions: TensorType) -> TensorType:
        """Shape [K, ...] for positions i64[K] in x [N, ...]; for a single position i64[], the shape [...] of one
        entry."""
        _check_integers(positions)
        require(x.rank in (1, 2), f"expected tokens [N, D] or a vector [D], got {x}", code="A0402")
        return x.with_dims(*positions.shape, *x.shape[1:])

    def ties(self, x: TensorType, positions: TensorType) -> tuple[ChannelMap, ...]:
        """Return the channel map from tokens to result. A vector has none: the lookup is along its channels."""
        return (AliasMap((0, None)),) if x.rank == 2 else ()

    def kernels(self, x: TensorType, positions: TensorType) -> int:
        """2 kernel launches: the indices of the samples, and the lookup."""
        return 2

    def limits(self, x: TensorType, positions: TensorType) -> tuple[int | None, ...]:
        """Return the length of x's first axis as the exclusive upper bound of the positions."""
        return None, x.shape[0]


@dataclass(frozen=True)
class OneHot(Free):
    """One-hot vectors of integers from 0 to `classes` - 1: 1 at the index that the integer gives, 0 elsewhere."""

    any_element: ClassVar[bool] = True
    classes: int

    def infer(self, x: TensorType) -> TensorType:
        """Type f32[N, classes] for integers i64[N]; f32[classes] for a scalar i64[]."""
        _check_integers(x)
        require(self.classes >= 1, f"`classes` must be at least 1, got {self.classes}")
        return TensorType((*x.shape, self.classes))

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """A scalar buffer `one` with the value 1, which gives the result the element type of the trained weights."""
        return {"one": Weight((), "ones", buffer=True)}

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return no axes for `one`, which is a scalar."""
        return {"one": ()}

    def ties(self, x: TensorType) -> tuple[ChannelMap, ...]:
        """Return no channel maps: integers have no channels."""
        return ()

    def limits(self, x: TensorType) -> tuple[int | None, ...]:
        """Return the number of classes as the exclusive upper bound of the integers."""
        return (self.classes,)

    def kernels(self, x: TensorType) -> int:
        """3 kernel launches: the range of classes, the comparison with it, and the conversion to floating point."""
        return 3


@dataclass(frozen=True)
class Equal(Free):
    """Boolean mask that is true where integers equal a number, such as `equal(ids, 0)` for the padding of a text."""

    any_element: ClassVar[bool] = True
    to: int

    def infer(self, x: TensorType) -> TensorType:
        """Booleans of the shape of x."""
        hint = "compare floating-point numbers with `greater` or `less`"
        require(x.dtype in INTEGER_DTYPES, f"expected integers, got {x}", hint, "A0408")
        return TensorType(x.dims, "bool")


@dataclass(frozen=True)
class ToNumbers(Free):
    """Integers or booleans (as 1 and 0) converted to floating point: `ids |> equal(0) |> to_numbers`."""

    any_element: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """Type f32 of the shape of x."""
        require(not x.is_floating, f"expected integers or truth values, got {x}", code="A0408")
        return TensorType(x.dims)

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """A scalar buffer `one` with the value 1, which gives the result the element type of the trained weights."""
        return {"one": Weight((), "ones", buffer=True)}

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """Return no axes for `one`, which is a scalar."""
        return {"one": ()}
