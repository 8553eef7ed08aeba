"""The operations every graph is made with: inputs, choices and mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

from archir.diagnostics.errors import RuleError, require
from archir.diagrams.cases import Value, leaves, varies
from archir.diagrams.lifting import lift
from archir.ir.op import Free, View
from archir.ir.types import TensorType


@dataclass(frozen=True)
class Input(View):
    """A tensor that is given from outside. Its dimensions may depend on choices: an architecture's do not."""

    operands: ClassVar[tuple[str, ...]] = ()
    internal: ClassVar[bool] = True
    label: str
    dims: tuple[int, ...]
    dtype: str = "f32"

    @classmethod
    def of(cls, label: str, dims: Sequence[Value], dtype: str = "f32") -> Input:
        """The input whose dimensions are these, each of which may depend on choices."""
        return cls(label, lift(lambda *sizes: sizes, *dims), dtype)

    @property
    def axes(self) -> tuple[Value, ...]:
        """The dimensions, each by itself."""
        if not varies(self.dims):
            return self.dims
        rank = len(next(leaves(self.dims)))
        return tuple(lift(itemgetter(axis), self.dims) for axis in range(rank))

    def infer(self, *operands: Any) -> TensorType:
        """The declared type."""
        require(all(dim >= 1 for dim in self.dims), f"dimensions must be at least 1, got {list(self.dims)}")
        return TensorType(self.dims, self.dtype)


@dataclass(frozen=True)
class Select(View):
    """One of the operands, by the outcome of a choice: outcome i reads operand `cases[i]`."""

    operands: ClassVar[tuple[str, ...]] = ("*alternatives",)
    any_element: ClassVar[bool] = True
    internal: ClassVar[bool] = True
    choice: str
    cases: tuple[int, ...]

    def infer(self, *operands: Any) -> TensorType:
        """The common type; where dimensions or kinds differ, they depend on the choice (see `archir.ir.typing`)."""
        require(len(set(operands)) == 1, "the alternatives have different types")
        first: TensorType = operands[0]
        return first


@dataclass(frozen=True)
class Mix(Free):
    """A weighted sum of its operands: what choices become when they are relaxed.

    The weight of operand i is a product with a factor for each of `mixed`: the sum of the weights that the choice has
    at the positions `shares[i][j]`; no positions stand for a factor of 1. A name in `mixed` is the path of a choice,
    whose weights are those of its outcomes, or the path and `*`, for the alternatives of a choice that takes several.
    """

    operands: ClassVar[tuple[str, ...]] = ("*terms",)
    internal: ClassVar[bool] = True
    any_kind: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    mixed: tuple[str, ...]
    shares: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def choices(self) -> set[str]:
        """The choices that are relaxed here."""
        return {name.removesuffix("*") for name in self.mixed}

    def infer(self, *terms: TensorType) -> TensorType:
        """The type that all terms have."""
        for term in terms[1:]:
            require(term == terms[0], f"terms differ: {terms[0]} and {term}", code="A0401")
        return terms[0]


def merge(types: list[TensorType]) -> None:
    """RuleError unless the alternatives agree in rank and element type; their kinds have a union."""
    first = types[0]
    for other in types[1:]:
        if (other.rank, other.dtype) != (first.rank, first.dtype):
            raise RuleError(f"alternatives differ in rank or element type: {first} and {other}", code="A0403")
