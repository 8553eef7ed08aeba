"""Operations that graphs are built from: inputs, `select` (a choice between nodes) and `mix` (a relaxed choice)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

from archir.diagnostics.errors import RuleError, require
from archir.diagrams.diagram import Value, leaves, varies
from archir.diagrams.lifting import lift
from archir.ir.op import Free, View
from archir.ir.types import TensorType


@dataclass(frozen=True)
class Input(View):
    """An input tensor of the network.

    In a space, its dimensions may depend on choices; in an architecture, they are integers.
    """

    operands: ClassVar[tuple[str, ...]] = ()
    internal: ClassVar[bool] = True
    label: str
    dims: tuple[int, ...]
    dtype: str = "f32"

    @classmethod
    def of(cls, label: str, dims: Sequence[Value], dtype: str = "f32") -> Input:
        """Create an input from its dimensions, each of which may depend on choices."""
        return cls(label, lift(lambda *sizes: sizes, *dims), dtype)

    @property
    def axes(self) -> tuple[Value, ...]:
        """The dimensions as separate values, each of which may depend on choices."""
        if not varies(self.dims):
            return self.dims
        rank = len(next(leaves(self.dims)))
        return tuple(lift(itemgetter(axis), self.dims) for axis in range(rank))

    def infer(self, *operands: Any) -> TensorType:
        """Return the declared type. Raises RuleError if a dimension is below 1."""
        require(all(dim >= 1 for dim in self.dims), f"dimensions must be at least 1, got {list(self.dims)}")
        return TensorType(self.dims, self.dtype)


@dataclass(frozen=True)
class Select(View):
    """The operand that a choice selects: if the choice has outcome i, the result is operand `cases[i]`."""

    operands: ClassVar[tuple[str, ...]] = ("*alternatives",)
    any_element: ClassVar[bool] = True
    internal: ClassVar[bool] = True
    choice: str
    cases: tuple[int, ...]

    def infer(self, *operands: Any) -> TensorType:
        """The common type of the operands. If dimensions or kinds differ, `archir.ir.typing` infers the type
        instead."""
        require(len(set(operands)) == 1, "the alternatives have different types")
        first: TensorType = operands[0]
        return first


@dataclass(frozen=True)
class Mix(Free):
    """A weighted sum of the operands: the continuous relaxation of a `select`.

    The weight of operand i is a product of one factor for each choice `mixed[j]`. The factor is the sum of the choice's
    architecture weights at the indices `shares[i][j]`, or 1 if there are no indices. `mixed[j]` is the path of a
    choice, which has one weight per outcome; or the path followed by `*`, for a choice that picks several alternatives
    and has one weight per alternative.
    """

    operands: ClassVar[tuple[str, ...]] = ("*terms",)
    internal: ClassVar[bool] = True
    any_kind: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    mixed: tuple[str, ...]
    shares: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def choices(self) -> set[str]:
        """Paths of the choices that are relaxed here."""
        return {name.removesuffix("*") for name in self.mixed}

    def infer(self, *terms: TensorType) -> TensorType:
        """The type of the operands. Raises RuleError if their types differ."""
        for term in terms[1:]:
            require(term == terms[0], f"terms differ: {terms[0]} and {term}", code="A0401")
        return terms[0]


def require_mergeable(types: list[TensorType]) -> None:
    """Raise RuleError (A0403) unless the alternatives of a choice have equal ranks and element types.

    Their dimensions and kinds may differ.
    """
    first = types[0]
    for type_ in types[1:]:
        if (type_.rank, type_.dtype) != (first.rank, first.dtype):
            raise RuleError(f"alternatives differ in rank or element type: {first} and {type_}", code="A0403")
