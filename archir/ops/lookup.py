"""What integers are for: rows of a table, and positions, looked up by them; and which of them are a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import require
from archir.ir.op import Free, Role, Tie, Tied, Weight
from archir.ir.types import INTEGERS, TensorType


def _integers(x: TensorType) -> None:
    require(x.dtype in INTEGERS, f"expected integers, i64[N] or i64[], got {x}", code="A0408")
    hint = "`reshape([-1])` makes one row of them; what comes of it can be cut again"
    require(x.rank <= 1, f"expected i64[N] or i64[], got {x}", hint, "A0402")


@dataclass(frozen=True)
class Embedding(Free):
    """Rows of a learned table, one for each of the integers from 0 to `vocabulary` - 1: words, bytes, categories."""

    any_element: ClassVar[bool] = True
    vocabulary: int
    channels: int

    def infer(self, x: TensorType) -> TensorType:
        """f32[N, channels] of i64[N], f32[channels] of i64[]."""
        _integers(x)
        require(self.vocabulary >= 1, f"`vocabulary` must be at least 1, got {self.vocabulary}")
        require(self.channels >= 1, f"`channels` must be at least 1, got {self.channels}")
        return TensorType((*x.shape, self.channels))

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """`weight` [vocabulary, channels]."""
        return {"weight": Weight((self.vocabulary, self.channels), "token")}

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """A smaller vocabulary has the first rows; then the channels."""
        return {"weight": ("leading", "result")}

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """None: integers have no channels."""
        return ()

    def limits(self, x: TensorType) -> tuple[int | None, ...]:
        """The vocabulary."""
        return (self.vocabulary,)


@dataclass(frozen=True)
class Gather(Free):
    """The positions of x that the integers say, along its first axis: the last token of each text, say."""

    any_element: ClassVar[bool] = True
    operands: ClassVar[tuple[str, ...]] = ("x", "positions")

    def infer(self, x: TensorType, positions: TensorType) -> TensorType:
        """[K, ...] of i64[K], one position of i64[], of x [N, ...]."""
        _integers(positions)
        require(x.rank in (1, 2), f"expected tokens [N, D] or a vector [D], got {x}", code="A0402")
        return x.with_dims(*positions.shape, *x.shape[1:])

    def ties(self, x: TensorType, positions: TensorType) -> tuple[Tie, ...]:
        """The channels of tokens; those of a vector are what is looked up."""
        return (Tied((0, None)),) if x.rank == 2 else ()

    def kernels(self, x: TensorType, positions: TensorType) -> int:
        """The samples' numbers, and the lookup."""
        return 2

    def limits(self, x: TensorType, positions: TensorType) -> tuple[int | None, ...]:
        """Positions end where x does."""
        return None, x.shape[0]


@dataclass(frozen=True)
class OneHot(Free):
    """For each of the integers from 0 to `classes` - 1 as many numbers: 1 at its place, 0 elsewhere."""

    any_element: ClassVar[bool] = True
    classes: int

    def infer(self, x: TensorType) -> TensorType:
        """f32[N, classes] of i64[N], f32[classes] of i64[]."""
        _integers(x)
        require(self.classes >= 1, f"`classes` must be at least 1, got {self.classes}")
        return TensorType((*x.shape, self.classes))

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """A buffer, `one`: the number 1, as precise as what is trained."""
        return {"one": Weight((), "ones", buffer=True)}

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """It has no axes."""
        return {"one": ()}

    def ties(self, x: TensorType) -> tuple[Tie, ...]:
        """None: integers have no channels."""
        return ()

    def limits(self, x: TensorType) -> tuple[int | None, ...]:
        """The classes."""
        return (self.classes,)

    def kernels(self, x: TensorType) -> int:
        """The classes, where they are met, and that as numbers."""
        return 3


@dataclass(frozen=True)
class Equal(Free):
    """Where integers are a number: a mask of truth values, such as `equal(ids, 0)`, the padding of a text."""

    any_element: ClassVar[bool] = True
    to: int

    def infer(self, x: TensorType) -> TensorType:
        """bool of the shape of x."""
        require(x.dtype in INTEGERS, f"expected integers, got {x}", "`greater` and `less` compare others", "A0408")
        return TensorType(x.dims, "bool")


@dataclass(frozen=True)
class ToNumbers(Free):
    """Integers, or truth values as 1 and 0, as numbers to compute with: `ids |> equal(0) |> to_numbers`."""

    any_element: ClassVar[bool] = True

    def infer(self, x: TensorType) -> TensorType:
        """f32 of the shape of x."""
        require(not x.numeric, f"expected integers or truth values, got {x}", code="A0408")
        return TensorType(x.dims)

    def weights(self, x: TensorType) -> dict[str, Weight]:
        """A buffer, `one`: the number 1, as precise as what is trained."""
        return {"one": Weight((), "ones", buffer=True)}

    def roles(self, x: TensorType) -> dict[str, tuple[Role, ...]]:
        """It has no axes."""
        return {"one": ()}
